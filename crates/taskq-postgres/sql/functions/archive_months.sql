-- The months that the archive has partitions for, oldest first.
-- Called by: sweep_head, sweep_backlog, expire_archive. Locks: none. Indexes: those of the catalog pg_inherits.
-- The names are taken from the catalog's cache: to read them from pg_class would cost a few pages each.
CREATE OR REPLACE FUNCTION "{schema}".archive_months() RETURNS SETOF timestamptz
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT DISTINCT (replace(p.name[1], '_', '-') || '-01 00:00:00+00')::timestamptz
    FROM pg_inherits i
    CROSS JOIN LATERAL regexp_match(i.inhrelid::regclass::text, '_archive_(\d{4,}_\d\d)"?$') p(name)
    WHERE i.inhparent IN ('"{schema}".jobs_archive'::regclass, '"{schema}".job_attempts_archive'::regclass)
        AND p.name IS NOT NULL
    ORDER BY 1
$$;
