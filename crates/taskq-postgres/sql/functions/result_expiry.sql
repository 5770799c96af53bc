-- Until when a result is kept that is stored now, by the setting result_ttl; NULL is for ever. A value that makes no sense
-- counts as none: no job may fail to end because of it.
-- Called by: settle_succeeded, settle_each, for outcomes with a result. Locks: none. Indexes: settings_pkey.
CREATE OR REPLACE FUNCTION "{schema}".result_expiry(now timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE
AS $$
    SELECT now + nullif((s.value #>> '{}')::interval, '0')
    FROM "{schema}".settings s
    WHERE s.name = 'result_ttl' AND "{schema}".setting_problem(s.name, s.value) IS NULL
$$;
