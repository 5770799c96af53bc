-- Says what is wrong with a retry policy, or NULL.
-- Called by: document_problem, for documents that carry one. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".retry_policy_problem(policy jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    field text;
    span interval;
BEGIN
    IF jsonb_typeof(policy) <> 'object' THEN
        RETURN format('retry_policy is a JSON %s, not an object', jsonb_typeof(policy));
    END IF;
    SELECT k INTO field FROM jsonb_object_keys(policy) k WHERE k NOT IN ('base', 'factor', 'cap', 'jitter') LIMIT 1;
    IF FOUND THEN
        RETURN format('retry_policy has the unknown field "%s"', field);
    END IF;
    FOREACH field IN ARRAY ARRAY['base', 'cap'] LOOP
        CONTINUE WHEN NOT policy ? field;
        BEGIN
            IF jsonb_typeof(policy -> field) <> 'string' THEN
                RETURN format('retry_policy: %s is a JSON %s, not a string', field, jsonb_typeof(policy -> field));
            END IF;
            span := (policy ->> field)::interval;
        EXCEPTION WHEN data_exception THEN
            RETURN format('retry_policy: %s is not a valid interval', field);
        END;
        IF span < interval '0' THEN
            RETURN format('retry_policy: %s is negative', field);
        ELSIF span > interval '366 days' THEN
            RETURN format('retry_policy: %s is longer than 366 days', field);
        END IF;
    END LOOP;
    FOREACH field IN ARRAY ARRAY['factor', 'jitter'] LOOP
        CONTINUE WHEN NOT policy ? field;
        IF jsonb_typeof(policy -> field) <> 'number' THEN
            RETURN format('retry_policy: %s is a JSON %s, not a number', field, jsonb_typeof(policy -> field));
        END IF;
        BEGIN
            -- As retry_delay reads it, for which a number can be too small.
            PERFORM (policy ->> field)::double precision;
        EXCEPTION WHEN data_exception THEN
            RETURN format('retry_policy: %s is out of range', field);
        END;
    END LOOP;
    IF NOT coalesce((policy ->> 'factor')::numeric BETWEEN 1 AND 100, true) THEN
        RETURN 'retry_policy: factor is not between 1 and 100';
    ELSIF NOT coalesce((policy ->> 'jitter')::numeric BETWEEN 0 AND 1, true) THEN
        RETURN 'retry_policy: jitter is not between 0 and 1';
    END IF;
    RETURN NULL;
END
$$;
