-- Claims the first `want` ready jobs of one lane by priority DESC, scheduled_at, id; returns them in any order. The last
-- column, a cohort, is null: the lane does not take turns.
-- Called by: claim, and claim_slots, whose client sorts them; both have checked the worker. Locks: the worker's row FOR KEY
-- SHARE if the lane has a job, then the jobs with SKIP LOCKED. Indexes: jobs_ready_idx, workers_pkey, settings_pkey.
--
-- What claim_group does for many lanes, without merging: the head of the lane is what is best. So one statement locks the
-- jobs, sliding over those that other dispatchers hold, and updates them by their ctid, which cannot change while they
-- are locked. A worker that waits pays for each statement before its job starts.
--
-- Every read of jobs walks jobs_ready_idx in its own order from one equality probe. That is pinned here, since a plan made
-- when the table was empty, or from estimates, would scan the backlog.
CREATE OR REPLACE FUNCTION "{schema}".claim_lane(
    worker uuid, lane_queue text, lane_actor text, want integer, lease interval
) RETURNS TABLE (
    id uuid, queue text, actor text, epoch bigint, attempt integer, max_attempts smallint, priority smallint,
    payload jsonb, payload_version integer, scheduled_at timestamptz, schedule_to_close timestamptz,
    start_to_close interval, fairness_key text, identity_key text, metadata jsonb, tags text[], trace_context text,
    cohort text
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz;
    lease_end timestamptz;
    tell boolean;
    got integer;
    took boolean := false;
BEGIN
    -- Where there is a candidate the worker cannot be declared lost from here until this transaction ends. A worker that
    -- has been lost since it was checked is told so by its next claim.
    SELECT w.lease_expires_at, (SELECT s.value = '"all"' FROM "{schema}".settings s WHERE s.name = 'event_level')
    INTO lease_end, tell
    FROM "{schema}".workers w
    WHERE w.id = worker AND w.state = 'active' AND (
        SELECT true FROM "{schema}".jobs j
        WHERE j.queue = lane_queue AND j.actor = lane_actor AND j.cohort = '' AND j.status = 'pending'
        ORDER BY j.priority DESC, j.scheduled_at, j.id
        LIMIT 1)
    FOR KEY SHARE OF w;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    now := "{schema}".clock_now();
    IF lease_end <= now THEN
        RAISE EXCEPTION USING ERRCODE = 'TQ001', MESSAGE = format('worker %s is unknown, lost or expired', worker);
    END IF;
    FOR pass IN 1 .. 3 LOOP
        RETURN QUERY
            UPDATE "{schema}".jobs j
            SET status = 'running', attempt = j.attempt + 1, claim_epoch = j.claim_epoch + 1,
                locked_by_worker = worker, started_at = now
            WHERE j.ctid = ANY (ARRAY(
                SELECT h.tid
                FROM (
                    SELECT r.ctid AS tid, r.schedule_to_close FROM "{schema}".jobs r
                    WHERE r.queue = lane_queue AND r.actor = lane_actor AND r.cohort = '' AND r.status = 'pending'
                    ORDER BY r.priority DESC, r.scheduled_at, r.id
                    LIMIT want
                    FOR NO KEY UPDATE SKIP LOCKED
                ) h
                WHERE coalesce(h.schedule_to_close > now, true)))
            RETURNING j.id, j.queue, j.actor, j.claim_epoch, j.attempt, j.max_attempts, j.priority, j.payload,
                j.payload_version, j.scheduled_at, j.schedule_to_close, j.start_to_close, j.fairness_key, j.identity_key,
                j.metadata, j.tags, j.trace_context, NULL::text;
        GET DIAGNOSTICS got = ROW_COUNT;
        want := want - got;
        took := took OR got > 0;
        -- Otherwise nothing is left that is not locked, or jobs that are too late stood in the way.
        EXIT WHEN want = 0 OR NOT EXISTS (
            SELECT FROM (
                SELECT j.schedule_to_close FROM "{schema}".jobs j
                WHERE j.queue = lane_queue AND j.actor = lane_actor AND j.cohort = '' AND j.status = 'pending'
                ORDER BY j.priority DESC, j.scheduled_at, j.id
                LIMIT want
            ) h
            WHERE h.schedule_to_close <= now);
        -- One that is crowded with such is left to the next claim, so that this one does a bounded amount of work for them.
        EXIT WHEN pass = 3;
        PERFORM "{schema}".fail_late(ARRAY[lane_queue], ARRAY[lane_actor], now);
    END LOOP;
    IF NOT took THEN
        RETURN;
    END IF;
    IF tell THEN
        INSERT INTO "{schema}".job_events (job_id, occurred_at, kind, detail)
        SELECT j.id, now, 'claimed', jsonb_build_object('epoch', j.claim_epoch, 'attempt', j.attempt, 'worker', worker)
        FROM "{schema}".jobs j
        WHERE j.locked_by_worker = worker AND j.status = 'running' AND j.started_at = now
            AND j.queue = lane_queue AND j.actor = lane_actor;
    END IF;
    IF lease_end - now < lease / 2 THEN
        UPDATE "{schema}".workers w SET lease_expires_at = now + lease WHERE w.id = worker;
    END IF;
END
$$;
