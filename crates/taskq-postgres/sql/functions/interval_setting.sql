-- The value of a setting that is a time, or its default. Raises TQ002 when somebody wrote a row that makes no sense.
-- Called by: the sweeps. Locks: none. Indexes: settings_pkey.
CREATE OR REPLACE FUNCTION "{schema}".interval_setting(name text, fallback interval) RETURNS interval
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
DECLARE
    stored jsonb;
    problem text;
BEGIN
    SELECT s.value INTO stored FROM "{schema}".settings s WHERE s.name = interval_setting.name;
    IF stored IS NULL THEN
        RETURN fallback;
    END IF;
    problem := "{schema}".setting_problem(name, stored);
    IF problem IS NOT NULL THEN
        PERFORM "{schema}".refuse(format('setting %s in the table settings: %s', name, problem));
    END IF;
    RETURN (stored #>> '{}')::interval;
END
$$;
