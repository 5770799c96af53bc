-- What status and actor an archived job has; NULL when there is none of this id.
-- Called by: enqueue_answers, cancel_ids, for ids that are not among the jobs. Locks: none. Indexes: jobs_archive_pkey of every
-- partition. A statement of its own, so that nobody who does not ask for it takes the archive's locks.
CREATE OR REPLACE FUNCTION "{schema}".archived_job(id uuid, OUT status text, OUT actor text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    SELECT a.status::text, a.actor INTO status, actor
    FROM "{schema}".jobs_archive a WHERE a.id = archived_job.id ORDER BY a.id, a.finished_at DESC LIMIT 1;
END
$$;
