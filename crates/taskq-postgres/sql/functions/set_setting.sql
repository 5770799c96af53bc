-- Sets what functions and the leader read live; a NULL value takes the setting back to its default. It takes effect with
-- the next call that reads it, without a restart.
-- Called by: operators. Locks: the row; for a hot period that of restamp, too. Indexes: settings_pkey, restamp_pkey.
-- event_level: "off", "notable", "ends" or "all", default "notable". event_retention_period: how long events are kept, default
-- "7 days"; "0" keeps them for ever. event_retention_batch_size: events of one batch, 1 to 100000, default 10000.
-- result_ttl: how long the result of a job that succeeds is kept; default "0", for ever. hot_period: how long a job that has
-- succeeded or was cancelled stays among the others before it is archived, at least "1 minute", default "1 hour";
-- failed_hot_period: how long one that failed, crashed or was abandoned does, default "24 hours". archive_retention_period: how
-- long the archive keeps a month after it is over, default "365 days"; "0" keeps it for ever.
-- Of jobs that had finished before, the leader makes the stamps anew, in batches.
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
    IF name IN ('hot_period', 'failed_hot_period') THEN
        PERFORM "{schema}".request_restamp();
    END IF;
END
$$;
