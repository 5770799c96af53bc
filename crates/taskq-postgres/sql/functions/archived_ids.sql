-- Which of the ids the archive has; NULL when it has none.
-- Called by: enqueue_many, sweep_archive. Locks: none. Indexes: jobs_archive_pkey of every partition.
-- Ids that were made in one order of time lie together, mostly where the archive has none: then one probe of each partition
-- answers for all of them.
CREATE OR REPLACE FUNCTION "{schema}".archived_ids(ids uuid[]) RETURNS uuid[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    least_id uuid := (SELECT u.id FROM unnest(ids) u(id) ORDER BY u.id LIMIT 1);
    greatest_id uuid := (SELECT u.id FROM unnest(ids) u(id) ORDER BY u.id DESC LIMIT 1);
BEGIN
    PERFORM FROM "{schema}".jobs_archive a WHERE a.id BETWEEN least_id AND greatest_id LIMIT 1;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT array_agg(DISTINCT a.id) FROM "{schema}".jobs_archive a WHERE a.id = ANY (ids));
END
$$;
