-- Renews a worker's lease, stores progress, and takes or renews the leader's lease when `leadership` is given.
-- Returns `leader` with the leader's epoch while this worker leads, and `cancel` for each of its jobs that somebody asked
-- to cancel, at every beat until the attempt has ended, and `overdue` for each that runs longer than its start_to_close:
-- the worker is to stop it, nobody takes it from the worker.
-- Called by: workers, every few seconds. Locks: the worker's row; jobs with progress, SKIP LOCKED, so that a
-- beat never waits for a job; the leader's row, SKIP LOCKED. Indexes: workers_pkey, jobs_pkey,
-- cancel_requests_worker_idx, jobs_overdue_idx.
-- A lost or expired lease is never renewed.
CREATE OR REPLACE FUNCTION "{schema}".heartbeat(
    worker uuid, lease interval, progress jsonb DEFAULT NULL, leadership interval DEFAULT NULL
) RETURNS TABLE (kind text, job_id uuid, epoch bigint, detail jsonb)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz;
    lease_end timestamptz;
    bad record;
    tids tid[];
    notes jsonb[];
    term bigint;
BEGIN
    PERFORM "{schema}".require_read_committed('heartbeat');
    PERFORM "{schema}".check_lease(worker, lease);
    IF leadership IS NOT NULL AND leadership NOT BETWEEN interval '1 second' AND interval '1 day' THEN
        PERFORM "{schema}".refuse(format('leadership is %s, not between 1 second and 1 day', leadership));
    END IF;
    IF progress IS NOT NULL AND jsonb_typeof(progress) NOT IN ('array', 'null') THEN
        PERFORM "{schema}".refuse(format('progress is a JSON %s, not an array', jsonb_typeof(progress)));
    END IF;
    SELECT w.lease_expires_at INTO lease_end FROM "{schema}".workers w WHERE w.id = worker AND w.state = 'active'
    FOR NO KEY UPDATE;
    -- Read after the lock was waited for: a lease that ended meanwhile has ended.
    now := "{schema}".clock_now();
    UPDATE "{schema}".workers w SET beat_at = now, lease_expires_at = now + lease WHERE w.id = worker AND lease_end > now;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'TQ001', MESSAGE = format('worker %s is unknown, lost or expired', worker);
    END IF;

    IF jsonb_typeof(progress) = 'array' AND progress <> '[]' THEN
        SELECT p.element, p.problem INTO bad FROM "{schema}".progress_problem(progress) p;
        IF bad.problem IS NOT NULL THEN
            PERFORM "{schema}".refuse(bad.problem, bad.element);
        END IF;
        SELECT array_agg(l.tid), array_agg(p.doc -> 'progress') INTO tids, notes
        FROM (
            -- The last note of a job is the one that counts.
            SELECT DISTINCT ON ((d.doc ->> 'id')::uuid) (d.doc ->> 'id')::uuid AS id, d.doc
            FROM jsonb_array_elements(progress) WITH ORDINALITY d(doc, nth)
            ORDER BY (d.doc ->> 'id')::uuid, d.nth DESC
        ) p
        CROSS JOIN LATERAL (
            SELECT j.ctid AS tid FROM "{schema}".jobs j
            -- As text, so that no index on running jobs can offer itself for this probe by primary key.
            WHERE j.id = p.id AND j.status::text = 'running' AND j.claim_epoch = (p.doc ->> 'epoch')::numeric::bigint
                AND j.locked_by_worker = worker
            FOR NO KEY UPDATE OF j SKIP LOCKED
        ) l;
        IF tids IS NOT NULL THEN
            UPDATE "{schema}".jobs j
            SET progress = nullif(n.note, 'null'), progress_seq = coalesce(j.progress_seq, 0) + 1
            FROM unnest(tids, notes) n(tid, note)
            WHERE j.ctid = n.tid;
        END IF;
    END IF;

    RETURN QUERY
        SELECT 'cancel'::text, c.job_id, c.epoch, NULL::jsonb FROM "{schema}".cancel_requests c WHERE c.worker = heartbeat.worker;
    -- The worker's own clock comes first, so it has a few seconds. What has been overdue for longer than the lease was told
    -- at a beat before, and is passed over: its entries may be dead ones that somebody's snapshot keeps.
    RETURN QUERY
        SELECT 'overdue'::text, j.id, j.claim_epoch, NULL::jsonb FROM "{schema}".jobs j
        WHERE j.locked_by_worker = worker AND j.status = 'running' AND j.start_to_close IS NOT NULL
            AND (j.started_at - timestamptz '2000-01-01 00:00:00+00') + j.start_to_close
                BETWEEN now - timestamptz '2000-01-01 00:00:00+00' - lease - interval '5 seconds'
                AND now - timestamptz '2000-01-01 00:00:00+00' - interval '5 seconds'
        ORDER BY (j.started_at - timestamptz '2000-01-01 00:00:00+00') + j.start_to_close;
    IF leadership IS NOT NULL THEN
        term := "{schema}".lead(worker, leadership);
        IF term IS NOT NULL THEN
            RETURN QUERY SELECT 'leader'::text, NULL::uuid, term, NULL::jsonb;
        END IF;
    END IF;
END
$$;
