-- Ends a worker's session: what it holds goes back without burning an attempt, or ends cancelled where that was
-- asked for. Returns how many jobs it held.
-- Called by: workers, at the end of an orderly stop. Locks: the worker's row FOR UPDATE, then its jobs in the
-- order of their ids. Indexes: workers_pkey, jobs_running_idx.
CREATE OR REPLACE FUNCTION "{schema}".release_worker(worker uuid) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz;
    tids tid[];
    ready text[];
BEGIN
    PERFORM "{schema}".require_read_committed('release_worker');
    -- Holds off a claim under way, so that what it takes is seen below.
    PERFORM FROM "{schema}".workers w WHERE w.id = worker FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    now := "{schema}".clock_now();
    SELECT array_agg(l.tid), array_agg(DISTINCT l.queue) INTO tids, ready
    FROM (
        SELECT j.ctid AS tid, j.queue FROM (
            SELECT r.id FROM "{schema}".jobs r WHERE r.locked_by_worker = worker AND r.status = 'running' ORDER BY r.id
        ) o
        CROSS JOIN LATERAL (
            SELECT j.ctid, j.queue FROM "{schema}".jobs j
            WHERE j.id = o.id AND j.status::text = 'running' AND j.locked_by_worker = worker
            FOR NO KEY UPDATE OF j
        ) j
    ) l;
    IF tids IS NOT NULL THEN
        INSERT INTO "{schema}".job_attempts (job_id, epoch, attempt, outcome, worker, started_at, finished_at)
        SELECT j.id, j.claim_epoch, j.attempt, 'released', worker, j.started_at, now
        FROM "{schema}".jobs j WHERE j.ctid = ANY (tids) AND j.cancel_phase IS NULL;
        IF "{schema}".event_level() = 'all' THEN
            INSERT INTO "{schema}".job_events (job_id, occurred_at, kind, detail)
            SELECT j.id, now, 'released', jsonb_build_object('epoch', j.claim_epoch, 'attempt', j.attempt)
            FROM "{schema}".jobs j WHERE j.ctid = ANY (tids) AND j.cancel_phase IS NULL;
        END IF;
        IF "{schema}".event_level() <> 'off' THEN
            INSERT INTO "{schema}".job_events (job_id, occurred_at, kind, detail)
            SELECT j.id, now, 'cancelled', jsonb_build_object('epoch', j.claim_epoch, 'attempt', j.attempt)
            FROM "{schema}".jobs j WHERE j.ctid = ANY (tids) AND j.cancel_phase IS NOT NULL;
        END IF;
        UPDATE "{schema}".jobs j SET status = 'pending', attempt = j.attempt - 1, locked_by_worker = NULL
        WHERE j.ctid = ANY (tids) AND j.cancel_phase IS NULL;
        UPDATE "{schema}".jobs j SET status = 'cancelled', cancel_phase = 4, finished_at = now,
            prune_at = "{schema}".hot_until(now, 'cancelled', j.actor)
        WHERE j.ctid = ANY (tids) AND j.cancel_phase IS NOT NULL;
        DELETE FROM "{schema}".cancel_requests c WHERE c.worker = release_worker.worker;
        PERFORM "{schema}".wake(ready);
    END IF;
    DELETE FROM "{schema}".workers w WHERE w.id = worker;
    UPDATE "{schema}".leader s SET worker = NULL, expires_at = NULL WHERE s.worker = release_worker.worker;
    RETURN coalesce(cardinality(tids), 0);
END
$$;
