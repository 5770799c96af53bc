-- Lists what the database thinks a worker runs, of the attempts started at `since` or later.
-- Called by: workers, to compare with their memory. Locks: none. Indexes: jobs_running_idx.
CREATE OR REPLACE FUNCTION "{schema}".held(worker uuid, since timestamptz DEFAULT NULL)
RETURNS TABLE (id uuid, epoch bigint, started_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT j.id, j.claim_epoch, j.started_at FROM "{schema}".jobs j
        WHERE j.locked_by_worker = worker AND j.status = 'running' AND j.started_at >= coalesce(since, '-infinity')
        ORDER BY j.started_at, j.id;
END
$$;
