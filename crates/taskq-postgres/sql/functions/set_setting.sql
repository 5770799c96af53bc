-- Sets what functions and the leader read live; a NULL value takes the setting back to its default. It takes effect with
-- the next call that reads it, without a restart.
-- Called by: operators. Locks: the row. Indexes: settings_pkey.
-- event_level: "off", "notable" or "all", default "notable". event_retention_period: how long events are kept, default
-- "7 days"; "0" keeps them for ever. event_retention_batch_size: events of one batch, 1 to 100000, default 10000.
-- result_ttl: how long the result of a job that succeeds is kept; default "0", for ever.
CREATE OR REPLACE FUNCTION "{schema}".set_setting(name text, value jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    problem text;
BEGIN
    IF name IS NULL THEN
        PERFORM "{schema}".refuse('name is null');
    END IF;
    problem := "{schema}".setting_problem(name, coalesce(value, '"0"'));
    IF problem IS NOT NULL AND (value IS NOT NULL OR problem = 'there is no such setting') THEN
        PERFORM "{schema}".refuse(format('setting %s: %s', left(name, 255), problem));
    END IF;
    IF value IS NULL THEN
        DELETE FROM "{schema}".settings s WHERE s.name = set_setting.name;
    ELSE
        INSERT INTO "{schema}".settings AS s (name, value) VALUES (name, value)
        ON CONFLICT ON CONSTRAINT settings_pkey DO UPDATE SET value = excluded.value;
    END IF;
END
$$;
