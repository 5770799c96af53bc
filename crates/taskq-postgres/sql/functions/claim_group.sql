-- Claims at most `want` ready jobs of the given lanes in one true order: priority DESC, scheduled_at, id.
-- The last column, a cohort, is null: such lanes do not take turns.
-- Called by: claim, claim_slots, which have checked the worker. Locks: the worker's row FOR KEY SHARE once
-- there are candidates, then the jobs with SKIP LOCKED. Indexes: jobs_ready_idx, workers_pkey, settings_pkey.
--
-- A lane is one (queue, actor, cohort). A few rows are read from the head of every lane and merged, which says which jobs
-- are the best; exactly these are locked, at the addresses that the merge has found. Where one of them is gone, or held by
-- another dispatcher, its lane is asked once more, and the lock slides over what others hold; a lane whose rest is held
-- gives its share to the others. The locked rows are updated by their ctid, which cannot change while they are locked: no
-- statement re-finds a row by a condition that some other index could serve. An address that a statement of this
-- function has seen is not given to another row before it ends, since the caller's snapshot holds vacuum off.
--
-- Every read is one equality probe per lane that walks jobs_ready_idx in its own order. That is pinned here,
-- since a plan made when the table was empty, or from estimates, would scan the backlog.
DROP FUNCTION IF EXISTS "{schema}".claim_group(uuid, text[], text[], integer, interval, integer);
CREATE OR REPLACE FUNCTION "{schema}".claim_group(
    worker uuid, lane_queues text[], lane_actors text[], want integer, lease interval, oversample integer
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
    depth integer;
    deep bigint[];
    cut boolean;
    -- How many jobs of other lanes are known, and were found again; whether others took some meanwhile.
    known integer;
    found integer;
    lost boolean;
    -- The best jobs: their lanes, as positions, and their addresses.
    lanes bigint[];
    heads tid[];
    complete boolean;
    -- What is locked; the lanes of what is locked and too late; the lanes that owe jobs, and how many.
    held tid[];
    tids tid[];
    late_lanes bigint[];
    short bigint[];
    missing bigint[];
    owed integer;
    slid bigint[];
    passes integer := 0;
BEGIN
    LOOP
        lanes := NULL;
        heads := NULL;
        short := NULL;
        lost := false;
        IF cardinality(lane_actors) = 1 THEN
            SELECT ARRAY[1::bigint], ARRAY[want::bigint] INTO short, missing
            FROM "{schema}".jobs j
            WHERE j.queue = lane_queues[1] AND j.actor = lane_actors[1] AND j.cohort = '' AND j.status = 'pending'
            ORDER BY j.priority DESC, j.scheduled_at, j.id
            LIMIT 1;
            EXIT WHEN short IS NULL;
            owed := want;
        ELSE
            depth := least(ceil(want * oversample::float8 / cardinality(lane_actors))::integer, want);
            deep := NULL;
            known := 0;
            LOOP
                -- The heads of every lane; then of the lanes in `deep`, beside what is known of the others.
                SELECT array_agg(q.lane), array_agg(q.tid), bool_or(q.jobs = depth AND q.is_deep AND depth < want),
                    count(*) FILTER (WHERE NOT q.is_deep)
                INTO lanes, heads, cut, found
                FROM (
                    SELECT m.lane, m.tid, m.is_deep, count(*) OVER (PARTITION BY m.lane) AS jobs
                    FROM (
                        SELECT l.lane, j.tid, j.priority, j.scheduled_at, j.id, true AS is_deep
                        FROM unnest(lane_queues, lane_actors) WITH ORDINALITY l(queue, actor, lane)
                        CROSS JOIN LATERAL (
                            SELECT j.ctid AS tid, j.priority, j.scheduled_at, j.id FROM "{schema}".jobs j
                            WHERE j.queue = l.queue AND j.actor = l.actor AND j.cohort = '' AND j.status = 'pending'
                            ORDER BY j.priority DESC, j.scheduled_at, j.id
                            LIMIT depth
                        ) j
                        WHERE deep IS NULL OR l.lane = ANY (deep)
                        UNION ALL
                        SELECT h.lane, h.tid, j.priority, j.scheduled_at, j.id, false
                        FROM unnest(lanes, heads) h(lane, tid)
                        CROSS JOIN LATERAL (
                            SELECT j.priority, j.scheduled_at, j.id FROM "{schema}".jobs j
                            WHERE j.ctid = h.tid AND j.status::text = 'pending'
                        ) j
                        WHERE h.lane <> ALL (deep)
                        ORDER BY 3 DESC, 4, 5
                        LIMIT want
                    ) m
                ) q;
                lost := lost OR found < known AND coalesce(cardinality(heads), 0) < want;
                EXIT WHEN cut IS NOT TRUE;
                -- A lane all of whose rows are among the best may have more that are: once more, deeper, into such lanes.
                SELECT array_agg(l.lane) INTO deep
                FROM (
                    SELECT h.lane FROM unnest(lanes) h(lane)
                    WHERE deep IS NULL OR h.lane = ANY (deep)
                    GROUP BY h.lane HAVING count(*) = depth
                ) l;
                known := cardinality(lanes) - cardinality(deep) * depth;
                depth := least(depth * 4, want);
            END LOOP;
            CONTINUE WHEN lost AND heads IS NULL;
            EXIT WHEN heads IS NULL;
        END IF;

        IF now IS NULL THEN
            -- The first candidates: from here the worker cannot be declared lost until this transaction ends.
            SELECT w.lease_expires_at, (SELECT s.value = '"all"' FROM "{schema}".settings s WHERE s.name = 'event_level')
            INTO lease_end, tell
            FROM "{schema}".workers w WHERE w.id = worker AND w.state = 'active' FOR KEY SHARE;
            now := "{schema}".clock_now();
            IF lease_end IS NULL OR lease_end <= now THEN
                RAISE EXCEPTION USING ERRCODE = 'TQ001', MESSAGE = format('worker %s is unknown, lost or expired', worker);
            END IF;
        END IF;

        held := '{}';
        tids := NULL;
        late_lanes := NULL;
        slid := NULL;
        IF heads IS NOT NULL THEN
            SELECT array_agg(k.tid), count(*) = cardinality(heads) AND bool_and(k.live) INTO tids, complete
            FROM (
                SELECT j.ctid AS tid, coalesce(j.schedule_to_close > now, true) AS live FROM "{schema}".jobs j
                WHERE j.ctid = ANY (heads) AND j.status::text = 'pending'
                FOR NO KEY UPDATE OF j SKIP LOCKED
            ) k;
            IF complete IS NOT TRUE THEN
                -- Which of them are ours, and what their lanes owe.
                SELECT array_agg(k.tid) FILTER (WHERE k.live), coalesce(array_agg(k.tid) FILTER (WHERE k.tid IS NOT NULL), '{}'),
                    array_agg(h.lane) FILTER (WHERE NOT k.live), array_agg(h.lane) FILTER (WHERE k.tid IS NULL)
                INTO tids, held, late_lanes, short
                FROM unnest(heads, lanes) h(tid, lane)
                LEFT JOIN LATERAL (
                    SELECT j.ctid AS tid, coalesce(j.schedule_to_close > now, true) AS live FROM "{schema}".jobs j
                    WHERE j.ctid = h.tid AND j.status::text = 'pending'
                    FOR NO KEY UPDATE OF j SKIP LOCKED
                ) k ON true;
                owed := cardinality(short);
                SELECT array_agg(s.lane), array_agg(s.jobs) INTO short, missing
                FROM (SELECT u.lane, count(*) AS jobs FROM unnest(short) u(lane) GROUP BY u.lane) s;
            END IF;
        END IF;
        IF short IS NOT NULL THEN
            SELECT tids || array_agg(t.tid) FILTER (WHERE t.live), array_agg(s.lane), late_lanes || array_agg(s.lane) FILTER (WHERE NOT t.live)
            INTO tids, slid, late_lanes
            FROM unnest(short, missing) s(lane, quota)
            CROSS JOIN LATERAL (
                SELECT j.ctid AS tid, coalesce(j.schedule_to_close > now, true) AS live FROM "{schema}".jobs j
                WHERE j.queue = lane_queues[s.lane] AND j.actor = lane_actors[s.lane] AND j.cohort = '' AND j.status = 'pending'
                    AND j.ctid <> ALL (held)
                ORDER BY j.priority DESC, j.scheduled_at, j.id
                LIMIT s.quota
                FOR NO KEY UPDATE OF j SKIP LOCKED
            ) t;
        END IF;
        IF tids IS NOT NULL THEN
            RETURN QUERY
                WITH claimed AS (
                    UPDATE "{schema}".jobs j
                    SET status = 'running', attempt = j.attempt + 1, claim_epoch = j.claim_epoch + 1,
                        locked_by_worker = worker, started_at = now
                    WHERE j.ctid = ANY (tids)
                    RETURNING j.id, j.queue, j.actor, j.claim_epoch, j.attempt, j.max_attempts, j.priority, j.payload,
                        j.payload_version, j.scheduled_at, j.schedule_to_close, j.start_to_close, j.fairness_key,
                        j.identity_key, j.metadata, j.tags, j.trace_context, NULL::text
                )
                SELECT c.* FROM claimed c ORDER BY c.priority DESC, c.scheduled_at, c.id;
            IF tell THEN
                INSERT INTO "{schema}".job_events (job_id, occurred_at, kind, detail)
                SELECT j.id, now, 'claimed', jsonb_build_object('epoch', j.claim_epoch, 'attempt', j.attempt, 'worker', worker)
                FROM "{schema}".jobs j WHERE j.locked_by_worker = worker AND j.status = 'running' AND j.started_at = now;
            END IF;
            want := want - cardinality(tids);
            IF lease_end - now < lease / 2 THEN
                UPDATE "{schema}".workers w SET lease_expires_at = now + lease WHERE w.id = worker;
                lease_end := now + lease;
            END IF;
        END IF;

        -- Every lane gave what was expected of it: there is no more, or no more is wanted.
        EXIT WHEN late_lanes IS NULL AND NOT lost AND (short IS NULL OR coalesce(cardinality(slid), 0) = owed);
        IF late_lanes IS NOT NULL AND passes < 2 THEN
            PERFORM "{schema}".fail_late(array_agg(lane_queues[l.lane]), array_agg(lane_actors[l.lane]), now)
            FROM (SELECT DISTINCT u.lane FROM unnest(late_lanes) u(lane)) l;
        END IF;
        -- A lane that gave less than it should has no row left that is not locked. One that is crowded with rows that
        -- are too late is left to the next claim, so that this one does a bounded amount of work for them.
        SELECT array_agg(l.queue), array_agg(l.actor) INTO lane_queues, lane_actors
        FROM unnest(lane_queues, lane_actors) WITH ORDINALITY l(queue, actor, lane)
        LEFT JOIN unnest(short, missing) s(lane, jobs) ON s.lane = l.lane
        WHERE coalesce((SELECT count(*) FROM unnest(slid) g(lane) WHERE g.lane = l.lane) >= s.jobs, true)
            AND NOT (passes = 2 AND coalesce(l.lane = ANY (late_lanes), false));
        EXIT WHEN lane_queues IS NULL;
        passes := least(passes + CASE WHEN late_lanes IS NOT NULL THEN 1 ELSE 0 END, 2);
    END LOOP;
END
$$;
