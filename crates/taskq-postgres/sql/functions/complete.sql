-- Ends an attempt as succeeded in the caller's own transaction, beside what it did there: both are committed or neither.
-- One row: `reason` is applied, repeated, stale or gone, as settle says it. The worker settles afterwards as ever and
-- meets `repeated`; after a rollback the job still runs.
-- Called by: handlers, on connections of their own. Locks: the job, until that transaction ends. Indexes: jobs_pkey,
-- workers_pkey, cancel_requests_pkey.
--
-- Works at every isolation level: whoever holds the row's lock decides. Above READ COMMITTED it raises 40001 when the row
-- has changed since the transaction began, and sees the worker's lease as it was then.
CREATE OR REPLACE FUNCTION "{schema}".complete(worker uuid, job uuid, epoch bigint, result jsonb DEFAULT NULL)
RETURNS TABLE (id uuid, accepted boolean, reason text, status text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz;
    held record;
    alive boolean;
BEGIN
    IF worker IS NULL OR job IS NULL OR epoch IS NULL THEN
        PERFORM "{schema}".refuse('worker, job or epoch is null');
    ELSIF "{schema}".json_bytes(result, 1048576) > 1048576 THEN
        PERFORM "{schema}".refuse(format('result has %s bytes, more than 1048576', "{schema}".json_bytes(result, 1048576)));
    END IF;
    SELECT j.ctid AS tid, j.status::text AS status, j.claim_epoch, j.locked_by_worker, j.attempt, j.cancel_phase INTO held
    FROM "{schema}".jobs j WHERE j.id = job
    FOR NO KEY UPDATE OF j;
    IF NOT FOUND THEN
        RETURN QUERY SELECT job, false, 'gone'::text, NULL::text;
        RETURN;
    END IF;
    -- Read after the lock was waited for: a lease that ended meanwhile counts as ended.
    now := "{schema}".clock_now();
    SELECT w.state = 'active' AND w.lease_expires_at > now INTO alive FROM "{schema}".workers w WHERE w.id = complete.worker;
    IF (held.claim_epoch = epoch AND held.locked_by_worker = worker) IS NOT TRUE
        OR held.status NOT IN ('running', 'succeeded') OR held.status = 'running' AND alive IS NOT TRUE THEN
        RETURN QUERY SELECT job, false, 'stale'::text, held.status;
        RETURN;
    ELSIF held.status = 'succeeded' THEN
        RETURN QUERY SELECT job, false, 'repeated'::text, held.status;
        RETURN;
    END IF;
    UPDATE "{schema}".jobs j
    SET status = 'succeeded', finished_at = now, prune_at = now + interval '1 hour', result = complete.result, error = NULL
    WHERE j.ctid = held.tid;
    IF held.cancel_phase IS NOT NULL THEN
        DELETE FROM "{schema}".cancel_requests c WHERE c.job_id = job;
    END IF;
    IF "{schema}".event_level() = 'all' THEN
        INSERT INTO "{schema}".job_events (job_id, occurred_at, kind, detail)
        VALUES (job, now, 'succeeded', jsonb_build_object('epoch', epoch, 'attempt', held.attempt));
    END IF;
    RETURN QUERY SELECT job, true, 'applied'::text, 'succeeded'::text;
END
$$;
