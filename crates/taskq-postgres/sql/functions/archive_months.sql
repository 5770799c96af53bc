-- The months that the archive has partitions for, oldest first; `is_whole` where it has both.
-- Called by: sweep_head, sweep_backlog, expire_archive. Locks: none. Indexes: those of the catalog pg_inherits.
-- The names are taken from the catalog's cache: to read them from pg_class would cost a few pages each.
CREATE OR REPLACE FUNCTION "{schema}".archive_months() RETURNS TABLE (month timestamptz, is_whole boolean)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT (replace(p.name[1], '_', '-') || '-01 00:00:00+00')::timestamptz, count(*) = 2
    FROM pg_inherits i
    CROSS JOIN LATERAL regexp_match(i.inhrelid::regclass::text, '_archive_(\d{4,}_\d\d)"?$') p(name)
    WHERE i.inhparent IN ('"{schema}".jobs_archive'::regclass, '"{schema}".job_attempts_archive'::regclass)
        AND p.name IS NOT NULL
    GROUP BY 1
    ORDER BY 1
$$;
