-- Claims at most `want` ready jobs of the given lanes in one true order: priority DESC, scheduled_at, id.
-- Called by: claim, claim_slots, which have checked the worker. Locks: the worker's row FOR KEY SHARE once
-- there are candidates, then the jobs with SKIP LOCKED. Indexes: jobs_ready_idx, workers_pkey.
--
-- A lane is one (queue, actor, cohort). Each round reads a few rows from the head of every lane, merges them,
-- and so knows how many jobs of each lane belong to the answer; then it locks exactly that many per lane.
-- Locks slide over rows that other dispatchers hold; a lane whose rest is held gives its share to the others. The locked rows are updated by their ctid, which cannot
-- change while they are locked: no statement re-finds a row by a condition that some other index could serve.
--
-- Every read is one equality probe per lane that walks jobs_ready_idx in its own order. That is pinned here,
-- since a plan made when the table was empty, or from estimates, would scan the backlog.
CREATE OR REPLACE FUNCTION "{schema}".claim_group(
    worker uuid, lane_queues text[], lane_actors text[], want integer, lease interval, oversample integer
) RETURNS TABLE (
    id uuid, queue text, actor text, epoch bigint, attempt integer, max_attempts smallint, priority smallint,
    payload jsonb, payload_version integer, scheduled_at timestamptz, schedule_to_close timestamptz,
    start_to_close interval, fairness_key text, identity_key text, metadata jsonb, tags text[], trace_context text
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz;
    depth integer := 0;
    quotas integer[];
    more boolean;
    tids tid[];
    got_lanes integer[];
    late_lanes integer[];
    passes integer := 0;
    short boolean;
    lease_end timestamptz;
BEGIN
    LOOP
        -- How many jobs of each lane are among the best, as far as `depth` rows per lane can tell. Everything
        -- up to the first lane's last row is certain; `more` says that the answer may go on behind it.
        depth := least(greatest(depth * 2, ceil(want * oversample::float8 / cardinality(lane_actors))::integer),
            want * oversample);
        IF cardinality(lane_actors) = 1 THEN
            SELECT array_agg(want), false, array_agg(j.queue), array_agg(j.actor)
            INTO quotas, more, lane_queues, lane_actors
            FROM (
                SELECT j.queue, j.actor FROM "{schema}".jobs j
                WHERE j.queue = lane_queues[1] AND j.actor = lane_actors[1] AND j.cohort = '' AND j.status = 'pending'
                ORDER BY j.priority DESC, j.scheduled_at, j.id
                LIMIT 1
            ) j;
        ELSE
            SELECT array_agg(q.quota), bool_or(q.cut), array_agg(lane_queues[q.lane]), array_agg(lane_actors[q.lane])
            INTO quotas, more, lane_queues, lane_actors
            FROM (
                SELECT c.lane, count(*) FILTER (WHERE c.nth <= least(want, coalesce(c.certain, want)))::integer AS quota,
                    bool_or(c.certain IS NOT NULL) AS cut
                FROM (
                    SELECT m.lane, m.nth, min(m.nth) FILTER (WHERE m.depth_nth = depth) OVER () AS certain
                    FROM (
                        SELECT h.lane, h.depth_nth,
                            row_number() OVER (ORDER BY h.priority DESC, h.scheduled_at, h.id) AS nth
                        FROM (
                            SELECT l.lane, j.priority, j.scheduled_at, j.id,
                                row_number() OVER (PARTITION BY l.lane ORDER BY j.priority DESC, j.scheduled_at, j.id) AS depth_nth
                            FROM unnest(lane_queues, lane_actors) WITH ORDINALITY l(queue, actor, lane)
                            CROSS JOIN LATERAL (
                                SELECT j.priority, j.scheduled_at, j.id FROM "{schema}".jobs j
                                WHERE j.queue = l.queue AND j.actor = l.actor AND j.cohort = '' AND j.status = 'pending'
                                ORDER BY j.priority DESC, j.scheduled_at, j.id
                                LIMIT depth
                            ) j
                        ) h
                    ) m
                ) c
                GROUP BY c.lane
                ORDER BY c.lane
            ) q;
        END IF;
        EXIT WHEN quotas IS NULL;

        IF now IS NULL THEN
            -- The first candidates: from here the worker cannot be declared lost until this transaction ends.
            SELECT w.lease_expires_at INTO lease_end
            FROM "{schema}".workers w WHERE w.id = worker AND w.state = 'active' FOR KEY SHARE;
            now := "{schema}".clock_now();
            IF lease_end IS NULL OR lease_end <= now THEN
                RAISE EXCEPTION USING ERRCODE = 'TQ001', MESSAGE = format('worker %s is unknown, lost or expired', worker);
            END IF;
        END IF;

        SELECT array_agg(t.tid) FILTER (WHERE t.live), array_agg(l.lane), array_agg(DISTINCT l.lane) FILTER (WHERE NOT t.live)
        INTO tids, got_lanes, late_lanes
        FROM unnest(lane_queues, lane_actors, quotas) WITH ORDINALITY l(queue, actor, quota, lane)
        CROSS JOIN LATERAL (
            SELECT j.ctid AS tid, coalesce(j.schedule_to_close > now, true) AS live
            FROM "{schema}".jobs j
            WHERE j.queue = l.queue AND j.actor = l.actor AND j.cohort = '' AND j.status = 'pending'
            ORDER BY j.priority DESC, j.scheduled_at, j.id
            LIMIT l.quota
            FOR NO KEY UPDATE OF j SKIP LOCKED
        ) t;
        IF tids IS NOT NULL THEN
            RETURN QUERY
                WITH claimed AS (
                    UPDATE "{schema}".jobs j
                    SET status = 'running', attempt = j.attempt + 1, claim_epoch = j.claim_epoch + 1,
                        locked_by_worker = worker, started_at = now
                    WHERE j.ctid = ANY (tids)
                    RETURNING j.*
                )
                SELECT c.id, c.queue, c.actor, c.claim_epoch, c.attempt, c.max_attempts, c.priority, c.payload,
                    c.payload_version, c.scheduled_at, c.schedule_to_close, c.start_to_close, c.fairness_key,
                    c.identity_key, c.metadata, c.tags, c.trace_context
                FROM claimed c
                ORDER BY c.priority DESC, c.scheduled_at, c.id;
            IF "{schema}".event_level() = 'all' THEN
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

        EXIT WHEN want <= 0;
        IF late_lanes IS NOT NULL AND passes < 2 THEN
            PERFORM "{schema}".fail_late(lane_queues, lane_actors, now);
        END IF;
        short := coalesce(cardinality(got_lanes), 0) < (SELECT sum(q.quota) FROM unnest(quotas) q(quota));
        EXIT WHEN NOT (more OR short OR late_lanes IS NOT NULL);
        IF short OR late_lanes IS NOT NULL THEN
            -- A lane that gave less than it should has no row left that is not locked. One that is crowded with rows that
            -- are too late is left to the next claim, so that this one does a bounded amount of work for them.
            SELECT array_agg(l.queue), array_agg(l.actor) INTO lane_queues, lane_actors
            FROM unnest(lane_queues, lane_actors, quotas) WITH ORDINALITY l(queue, actor, quota, lane)
            WHERE (SELECT count(*) FROM unnest(got_lanes) g(lane) WHERE g.lane = l.lane) >= l.quota
                AND NOT (passes = 2 AND coalesce(l.lane = ANY (late_lanes), false));
            EXIT WHEN lane_queues IS NULL;
            passes := least(passes + CASE WHEN late_lanes IS NOT NULL THEN 1 ELSE 0 END, 2);
        END IF;
    END LOOP;
END
$$;
