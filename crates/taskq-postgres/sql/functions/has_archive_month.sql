-- Whether the archive has its partitions of a month.
-- Called by: sweep_archive. Locks: none. Indexes: those of the catalog pg_inherits.
CREATE OR REPLACE FUNCTION "{schema}".has_archive_month(month timestamptz) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT count(*) = 2
    FROM (VALUES ('jobs_archive'), ('job_attempts_archive')) t(name)
    CROSS JOIN LATERAL (
        SELECT FROM pg_inherits i
        WHERE i.inhrelid = to_regclass(format('"{schema}".%s_%s', t.name, to_char(month AT TIME ZONE 'UTC', 'YYYY_MM')))
            AND i.inhparent = to_regclass(format('"{schema}".%s', t.name))
        OFFSET 0
    ) p
$$;
