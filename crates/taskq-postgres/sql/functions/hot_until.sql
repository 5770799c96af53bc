-- Until when a job stays among the others that ends now: for its actor's hot period, else that of the settings. A setting
-- that makes no sense counts as none: no job may fail to end because of it.
-- Called by: everything that ends jobs, sweep_restamp. Locks: none. Indexes: actor_config_pkey, settings_pkey.
CREATE OR REPLACE FUNCTION "{schema}".hot_until(now timestamptz, status text, actor text) RETURNS timestamptz
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
DECLARE
    lasts boolean := hot_until.status IN ('failed', 'crashed', 'abandoned');
    period interval;
BEGIN
    SELECT CASE WHEN lasts THEN a.failed_hot_period ELSE a.hot_period END INTO period
    FROM "{schema}".actor_config a WHERE a.actor = hot_until.actor;
    IF period IS NULL THEN
        SELECT (s.value #>> '{}')::interval INTO period
        FROM "{schema}".settings s
        WHERE s.name = CASE WHEN lasts THEN 'failed_hot_period' ELSE 'hot_period' END
            AND "{schema}".setting_problem(s.name, s.value) IS NULL;
    END IF;
    RETURN hot_until.now + coalesce(period, CASE WHEN lasts THEN interval '24 hours' ELSE interval '1 hour' END);
END
$$;
