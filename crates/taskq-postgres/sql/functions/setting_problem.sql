-- Says what is wrong with a value of a setting, or NULL. Every setting stands here.
-- Called by: set_setting, interval_setting, sweep_head; taskq doctor, for rows that somebody wrote by hand. Locks: none.
-- Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".setting_problem(name text, value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    span interval;
BEGIN
    CASE name
        WHEN 'event_level' THEN
            IF jsonb_typeof(value) <> 'string' OR value #>> '{}' NOT IN ('off', 'notable', 'ends', 'all') THEN
                RETURN format('%s is not "off", "notable", "ends" or "all"', value);
            END IF;
        WHEN 'event_retention_batch_size' THEN
            IF jsonb_typeof(value) <> 'number' THEN
                RETURN format('%s is not a number', value);
            ELSIF (value #>> '{}')::numeric NOT BETWEEN 1 AND 100000 OR (value #>> '{}')::numeric % 1 <> 0 THEN
                RETURN format('%s is not a whole number from 1 to 100000', value);
            END IF;
        WHEN 'event_retention_period', 'result_ttl', 'archive_retention_period', 'hot_period', 'failed_hot_period' THEN
            IF jsonb_typeof(value) <> 'string' THEN
                RETURN format('%s is not a string such as "7 days"', value);
            END IF;
            BEGIN
                span := (value #>> '{}')::interval;
            EXCEPTION WHEN data_exception THEN
                RETURN format('%s is not an interval such as "7 days"', value);
            END;
            IF span < interval '0' THEN
                RETURN format('%s is negative', value);
            ELSIF span > interval '36600 days' THEN
                RETURN format('%s is longer than 36600 days', value);
            ELSIF name IN ('hot_period', 'failed_hot_period') AND span < interval '1 minute' THEN
                RETURN format('%s is shorter than 1 minute', value);
            END IF;
        ELSE
            RETURN 'there is no such setting';
    END CASE;
    RETURN NULL;
END
$$;
