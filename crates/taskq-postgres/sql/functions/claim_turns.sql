-- Claims at most `want` ready jobs of a queue in round_robin mode: its lanes take turns, and in a lane the order is
-- priority DESC, scheduled_at, id. The first turn has the first lane at or behind (`from_actor`, `from_cohort`) in the
-- ring, which is ordered by actor and cohort and closed: behind its last lane comes its first.
-- Called by: claim, claim_slots, which have checked the worker. Locks: the worker's row FOR KEY SHARE once there are
-- candidates, then the jobs with SKIP LOCKED. Indexes: jobs_ready_idx, workers_pkey,
-- settings_pkey.
--
-- The walk: which lanes exist is found by one probe of the index for each, which goes from the lane before to the next entry
-- behind it, of whatever actor; that entry is the lane's first job. Where it is of an actor that is not served, the stops
-- behind that actor are probed one by one. So a claim visits as many lanes as it wants jobs, and nothing that it does depends
-- on how many lanes there are.
-- When the ring is larger than that, each lane gives one job. Else each gives an equal share, and what lanes without
-- enough jobs leave is shared among the others: the answer is what taking turns one by one would give, and no row is
-- looked at, or locked, that is not claimed. A lane whose jobs are all locked by others gives its turn to the next.
--
-- As in claim_group every read walks the index in its own order, pinned here, and locked rows are updated by their
-- ctid, which cannot change while they are locked.
CREATE OR REPLACE FUNCTION "{schema}".claim_turns(
    worker uuid, name text, actors text[], from_actor text, from_cohort text, want integer, lease interval
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
    -- The actors in the order of the walk; the one that it starts within comes last once more, for the lanes before.
    stops text[];
    split boolean;
    stop integer := 1;
    low text := '';
    closed boolean := false;
    lane_actors text[];
    lane_cohorts text[];
    quotas integer[];
    asked integer[];
    heads tid[];
    head_ids uuid[];
    tids tid[];
    gave integer[];
    late integer[];
    full_actors text[];
    full_cohorts text[];
    passes integer := 0;
    ended integer := 0;
BEGIN
    SELECT array_agg(a.actor ORDER BY a.actor COLLATE "C" < from_actor, a.actor COLLATE "C") INTO stops
    FROM unnest(actors) a(actor);
    split := stops[1] = from_actor AND from_cohort > '';
    IF split THEN
        stops := stops || from_actor;
        low := from_cohort;
    END IF;
    LOOP
        IF lane_actors IS NULL AND closed THEN
            -- The ring is walked round: those that gave their whole share give again.
            EXIT WHEN full_actors IS NULL;
            lane_actors := full_actors;
            lane_cohorts := full_cohorts;
            full_actors := NULL;
            full_cohorts := NULL;
            quotas := array_fill(greatest(want / cardinality(lane_actors), 1), ARRAY[cardinality(lane_actors)]);
        ELSIF lane_actors IS NULL THEN
            WITH RECURSIVE ring AS (
                SELECT 0 AS nth, stop AS stop, low COLLATE "C" AS low, NULL::text COLLATE "C" AS cohort,
                    NULL::tid AS tid, NULL::uuid AS id
                UNION ALL
                SELECT r.nth + 1, n.stop, n.cohort || E'\x01', n.cohort, n.tid, n.id
                FROM ring r
                LEFT JOIN LATERAL (
                    SELECT j.actor, j.cohort, j.ctid AS tid, j.id FROM "{schema}".jobs j
                    WHERE j.queue = name AND (j.actor, j.cohort) >= (stops[r.stop], r.low) AND j.status = 'pending'
                    ORDER BY j.actor, j.cohort, j.priority DESC, j.scheduled_at, j.id
                    LIMIT 1
                ) f ON true
                CROSS JOIN LATERAL (
                    SELECT array_position(stops, f.actor, r.stop) AS stop, f.cohort, f.tid, f.id
                    WHERE array_position(stops, f.actor, r.stop) IS NOT NULL
                    UNION ALL
                    (
                        -- It is of an actor that is not served. Those stops that come before it have no jobs.
                        SELECT s.stop, h.cohort, h.tid, h.id
                        FROM generate_series(r.stop + 1, cardinality(stops)) s(stop)
                        CROSS JOIN LATERAL (
                            SELECT j.cohort, j.ctid AS tid, j.id FROM "{schema}".jobs j
                            WHERE j.queue = name AND j.actor = stops[s.stop] AND j.status = 'pending'
                            ORDER BY j.cohort, j.priority DESC, j.scheduled_at, j.id
                            LIMIT 1
                        ) h
                        WHERE stops[s.stop] COLLATE "C" <= stops[r.stop] OR stops[s.stop] COLLATE "C" > f.actor
                        LIMIT 1
                    )
                    LIMIT 1
                ) n
                WHERE r.nth < want AND NOT (split AND n.stop = cardinality(stops) AND n.cohort >= from_cohort)
            )
            SELECT array_agg(stops[r.stop] ORDER BY r.nth), array_agg(r.cohort ORDER BY r.nth),
                array_agg(r.tid ORDER BY r.nth), array_agg(r.id ORDER BY r.nth), max(r.stop)
            INTO lane_actors, lane_cohorts, heads, head_ids, stop
            FROM ring r WHERE r.nth > 0;
            closed := coalesce(cardinality(lane_actors), 0) < want;
            CONTINUE WHEN lane_actors IS NULL;
            low := lane_cohorts[cardinality(lane_cohorts)] || E'\x01';
            quotas := array_fill(CASE WHEN closed AND full_actors IS NULL THEN want / cardinality(lane_actors) ELSE 1 END,
                ARRAY[cardinality(lane_actors)]);
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

        asked := quotas;
        tids := NULL;
        gave := NULL;
        late := NULL;
        IF heads IS NOT NULL AND quotas[1] = 1 THEN
            -- The walk has found the jobs; where one is gone or locked, its lane is asked for another.
            SELECT array_agg(k.tid) FILTER (WHERE k.live), array_agg(h.lane) FILTER (WHERE k.tid IS NOT NULL),
                array_agg(h.lane) FILTER (WHERE NOT k.live), array_agg(CASE WHEN k.tid IS NULL THEN 1 ELSE 0 END ORDER BY h.lane)
            INTO tids, gave, late, asked
            FROM unnest(heads, head_ids) WITH ORDINALITY h(tid, id, lane)
            LEFT JOIN LATERAL (
                SELECT j.ctid AS tid, coalesce(j.schedule_to_close > now, true) AS live FROM "{schema}".jobs j
                WHERE j.ctid = h.tid AND j.id IS NOT DISTINCT FROM h.id AND j.status::text = 'pending'
                FOR NO KEY UPDATE OF j SKIP LOCKED
            ) k ON true;
        END IF;
        IF coalesce(cardinality(gave), 0) < cardinality(lane_actors) THEN
            -- The outer limit ends the loop over the lanes, so no row is locked that is not claimed.
            SELECT tids || array_agg(t.tid) FILTER (WHERE t.live), gave || array_agg(t.lane), late || array_agg(t.lane) FILTER (WHERE NOT t.live)
            INTO tids, gave, late
            FROM (
                SELECT l.lane::integer AS lane, t.tid, t.live
                FROM unnest(lane_actors, lane_cohorts, asked) WITH ORDINALITY l(actor, cohort, quota, lane)
                CROSS JOIN LATERAL (
                    SELECT j.ctid AS tid, coalesce(j.schedule_to_close > now, true) AS live FROM "{schema}".jobs j
                    WHERE j.queue = name AND j.actor = l.actor AND j.cohort = l.cohort AND j.status = 'pending'
                    ORDER BY j.priority DESC, j.scheduled_at, j.id
                    LIMIT l.quota
                    FOR NO KEY UPDATE OF j SKIP LOCKED
                ) t
                LIMIT want - coalesce(cardinality(gave), 0)
            ) t;
        END IF;
        heads := NULL;

        IF tids IS NOT NULL THEN
            RETURN QUERY
                WITH claimed AS (
                    UPDATE "{schema}".jobs j
                    SET status = 'running', attempt = j.attempt + 1, claim_epoch = j.claim_epoch + 1,
                        locked_by_worker = worker, started_at = now
                    WHERE j.ctid = ANY (tids)
                    RETURNING j.id, j.queue, j.actor, j.claim_epoch, j.attempt, j.max_attempts, j.priority, j.payload,
                        j.payload_version, j.scheduled_at, j.schedule_to_close, j.start_to_close, j.fairness_key,
                        j.identity_key, j.metadata, j.tags, j.trace_context, j.cohort
                ), told AS (
                    INSERT INTO "{schema}".job_events (job_id, occurred_at, kind, detail)
                    SELECT c.id, now, 'claimed', jsonb_build_object('epoch', c.claim_epoch, 'attempt', c.attempt, 'worker', worker)
                    FROM claimed c WHERE tell
                )
                SELECT c.id, c.queue, c.actor, c.claim_epoch, c.attempt, c.max_attempts, c.priority, c.payload,
                    c.payload_version, c.scheduled_at, c.schedule_to_close, c.start_to_close, c.fairness_key,
                    c.identity_key, c.metadata, c.tags, c.trace_context, c.cohort
                FROM (
                    SELECT c.*, row_number() OVER (PARTITION BY c.actor, c.cohort ORDER BY c.priority DESC, c.scheduled_at, c.id) AS nth
                    FROM claimed c
                ) c
                ORDER BY c.nth, (c.actor, c.cohort) < (from_actor, from_cohort), c.actor, c.cohort;
            want := want - cardinality(tids);
            IF lease_end - now < lease / 2 THEN
                UPDATE "{schema}".workers w SET lease_expires_at = now + lease WHERE w.id = worker;
                lease_end := now + lease;
            END IF;
        END IF;
        EXIT WHEN want <= 0;

        -- Lanes that gave less than their share have no job left that is not locked.
        SELECT full_actors || array_agg(lane_actors[g.lane] ORDER BY g.lane), full_cohorts || array_agg(lane_cohorts[g.lane] ORDER BY g.lane)
        INTO full_actors, full_cohorts
        FROM (SELECT g.lane, count(*) AS jobs FROM unnest(gave) g(lane) GROUP BY g.lane) g
        WHERE g.jobs >= quotas[g.lane] AND (late IS NULL OR g.lane <> ALL (late));
        IF late IS NULL THEN
            lane_actors := NULL;
        ELSIF passes = 8 OR ended >= 1000 THEN
            -- Crowded with jobs that are too late: the rest is left to the next claim, so that this one does a bounded amount
            -- of work for them.
            PERFORM "{schema}".wake(ARRAY[name]);
            EXIT;
        ELSE
            -- What was too late is ended, and the turns that it took are given again.
            passes := passes + 1;
            SELECT array_agg(lane_actors[l.lane] ORDER BY l.lane), array_agg(lane_cohorts[l.lane] ORDER BY l.lane),
                array_agg(l.jobs::integer ORDER BY l.lane)
            INTO lane_actors, lane_cohorts, quotas
            FROM (SELECT l.lane, count(*) AS jobs FROM unnest(late) l(lane) GROUP BY l.lane) l;
            ended := ended + "{schema}".fail_late(
                array_fill(name, ARRAY[cardinality(lane_actors)]), lane_actors, now, lane_cohorts);
        END IF;
    END LOOP;
END
$$;
