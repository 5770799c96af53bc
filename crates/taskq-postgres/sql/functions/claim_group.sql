-- Claims at most `want` ready jobs of the given lanes in one true order: priority DESC, scheduled_at, id.
-- The last column, a cohort, is null: such lanes do not take turns.
-- Called by: claim, claim_slots, which have checked the worker. Locks: the worker's row FOR KEY SHARE once
-- there are candidates, then the jobs with SKIP LOCKED. Indexes: jobs_ready_idx, workers_pkey, settings_pkey.
--
-- A lane is one (queue, actor, cohort). A few rows are read from the head of every lane and merged, which says how many
-- jobs of each lane are among the best; then exactly that many are locked per lane. Locks slide over rows that other
-- dispatchers hold; a lane whose rest is held gives its share to the others. The locked rows are updated by their ctid,
-- which cannot change while they are locked: no statement re-finds a row by a condition that some other index could
-- serve.
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
    depths integer[];
    lanes bigint[];
    quotas bigint[];
    expected bigint;
    cut boolean;
    tids tid[];
    got_lanes bigint[];
    late_lanes bigint[];
    passes integer := 0;
BEGIN
    LOOP
        -- How many jobs of each lane are among the best: `lanes` are the positions of the lanes that have some.
        IF cardinality(lane_actors) = 1 THEN
            SELECT ARRAY[1::bigint], ARRAY[want::bigint], want::bigint INTO lanes, quotas, expected
            FROM "{schema}".jobs j
            WHERE j.queue = lane_queues[1] AND j.actor = lane_actors[1] AND j.cohort = '' AND j.status = 'pending'
            ORDER BY j.priority DESC, j.scheduled_at, j.id
            LIMIT 1;
        ELSE
            depths := array_fill(least(ceil(want * oversample::float8 / cardinality(lane_actors))::integer, want),
                ARRAY[cardinality(lane_actors)]);
            LOOP
                SELECT array_agg(q.lane), array_agg(q.quota), sum(q.quota), bool_or(q.quota = depths[q.lane] AND q.quota < want)
                INTO lanes, quotas, expected, cut
                FROM (
                    SELECT m.lane, count(*) AS quota
                    FROM (
                        SELECT l.lane
                        FROM unnest(lane_queues, lane_actors, depths) WITH ORDINALITY l(queue, actor, depth, lane)
                        CROSS JOIN LATERAL (
                            SELECT j.priority, j.scheduled_at, j.id FROM "{schema}".jobs j
                            WHERE j.queue = l.queue AND j.actor = l.actor AND j.cohort = '' AND j.status = 'pending'
                            ORDER BY j.priority DESC, j.scheduled_at, j.id
                            LIMIT l.depth
                        ) j
                        ORDER BY j.priority DESC, j.scheduled_at, j.id
                        LIMIT want
                    ) m
                    GROUP BY m.lane
                ) q;
                EXIT WHEN cut IS NOT TRUE;
                -- A lane all of whose rows are among the best may have more that are: once more, deeper into such lanes,
                -- and no deeper than before into the others.
                SELECT array_agg(CASE WHEN q.quota = d.depth THEN least(d.depth * 4, want) ELSE coalesce(q.quota + 1, 0)::integer END
                    ORDER BY d.lane)
                INTO depths
                FROM unnest(depths) WITH ORDINALITY d(depth, lane)
                LEFT JOIN unnest(lanes, quotas) q(lane, quota) ON q.lane = d.lane;
            END LOOP;
        END IF;
        EXIT WHEN lanes IS NULL;

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

        SELECT array_agg(t.tid) FILTER (WHERE t.live), array_agg(q.lane), array_agg(q.lane) FILTER (WHERE NOT t.live)
        INTO tids, got_lanes, late_lanes
        FROM unnest(lanes, quotas) q(lane, quota)
        CROSS JOIN LATERAL (
            SELECT j.ctid AS tid, coalesce(j.schedule_to_close > now, true) AS live
            FROM "{schema}".jobs j
            WHERE j.queue = lane_queues[q.lane] AND j.actor = lane_actors[q.lane] AND j.cohort = '' AND j.status = 'pending'
            ORDER BY j.priority DESC, j.scheduled_at, j.id
            LIMIT q.quota
            FOR NO KEY UPDATE OF j SKIP LOCKED
        ) t;
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
        EXIT WHEN late_lanes IS NULL AND cardinality(got_lanes) = expected;
        IF late_lanes IS NOT NULL AND passes < 2 THEN
            PERFORM "{schema}".fail_late(array_agg(lane_queues[l.lane]), array_agg(lane_actors[l.lane]), now)
            FROM (SELECT DISTINCT u.lane FROM unnest(late_lanes) u(lane)) l;
        END IF;
        -- A lane that gave less than it should has no row left that is not locked. One that is crowded with rows that
        -- are too late is left to the next claim, so that this one does a bounded amount of work for them.
        SELECT array_agg(l.queue), array_agg(l.actor) INTO lane_queues, lane_actors
        FROM unnest(lane_queues, lane_actors) WITH ORDINALITY l(queue, actor, lane)
        LEFT JOIN unnest(lanes, quotas) q(lane, quota) ON q.lane = l.lane
        WHERE coalesce((SELECT count(*) FROM unnest(got_lanes) g(lane) WHERE g.lane = l.lane) >= q.quota, true)
            AND NOT (passes = 2 AND coalesce(l.lane = ANY (late_lanes), false));
        EXIT WHEN lane_queues IS NULL;
        passes := least(passes + CASE WHEN late_lanes IS NOT NULL THEN 1 ELSE 0 END, 2);
    END LOOP;
END
$$;
