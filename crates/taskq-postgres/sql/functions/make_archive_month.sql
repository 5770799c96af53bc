-- Makes the archive's partitions of a month, where they are not there yet. Says what keeps them from being made, or NULL.
-- Called by: sweep_archive, expire_archive. Locks: the leader's row FOR KEY SHARE; the archive's tables SHARE UPDATE
-- EXCLUSIVE, for which nobody waits who reads or writes them; given up after 100 ms. Indexes: those of the catalog.
-- Only the owner of a table can give it partitions: its callers run with the owner's rights.
CREATE OR REPLACE FUNCTION "{schema}".make_archive_month(leader uuid, leader_epoch bigint, month timestamptz) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms'
AS $$
#variable_conflict use_column
DECLARE
    name text;
    part text;
BEGIN
    PERFORM "{schema}".require_leader(leader, leader_epoch, true);
    month := "{schema}".archive_month(month);
    FOREACH name IN ARRAY ARRAY['jobs_archive', 'job_attempts_archive'] LOOP
        part := name || to_char(month AT TIME ZONE 'UTC', '_YYYY_MM');
        IF EXISTS (
            SELECT FROM pg_inherits i
            WHERE i.inhrelid = to_regclass(format('"{schema}".%s', part)) AND i.inhparent = to_regclass(format('"{schema}".%s', name))
        ) THEN
            CONTINUE;
        ELSIF to_regclass(format('"{schema}".%s', part)) IS NOT NULL THEN
            RETURN format('the table %s is there and is no partition of %s', part, name);
        END IF;
        -- Made apart and then attached: to make it as a partition would lock out everybody who reads the archive.
        EXECUTE format('CREATE TABLE "{schema}".%s (LIKE "{schema}".%s INCLUDING ALL)', part, name);
        EXECUTE format('ALTER TABLE "{schema}".%s ATTACH PARTITION "{schema}".%s FOR VALUES FROM (%L) TO (%L)',
            name, part, month, (month AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC');
    END LOOP;
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    IF SQLSTATE = 'TQ005' THEN
        RAISE;
    END IF;
    RETURN format('the partition %s cannot be made: %s (SQLSTATE %s)', part, SQLERRM, SQLSTATE);
END
$$;
