-- Says what is wrong with the delay of an outcome, or NULL.
-- Called by: outcome_problem, for outcomes that carry one. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".delay_problem(delay jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    span interval;
BEGIN
    IF jsonb_typeof(delay) = 'null' THEN
        RETURN NULL;
    ELSIF jsonb_typeof(delay) <> 'string' THEN
        RETURN format('delay is a JSON %s, not a string', jsonb_typeof(delay));
    END IF;
    BEGIN
        span := (delay #>> '{}')::interval;
    EXCEPTION WHEN data_exception THEN
        RETURN 'delay is not a valid interval';
    END;
    IF span < interval '0' THEN
        RETURN 'delay is negative';
    ELSIF span > interval '36600 days' THEN
        RETURN 'delay is longer than 36600 days';
    END IF;
    RETURN NULL;
END
$$;
