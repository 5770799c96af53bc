-- Claims at most `max_jobs` ready jobs of the queues; jobs come in the order they should start.
-- Called by: workers in any language. Locks and indexes: see claim_group, claim_lane, claim_turns, start_turn, merge_cohorts.
-- Queues in strict order are claimed from together, in one order. Each queue in round_robin mode is claimed from by
-- itself, and starts at a lane chosen by chance, since this call has no memory. Where both or several of these are named,
-- each queue may have an equal part of `max_jobs`, and what some do not use goes to the others; the queues come in an
-- order chosen by chance, so that none is always the one that gets nothing when `max_jobs` is small.
CREATE OR REPLACE FUNCTION "{schema}".claim(
    queues text[], max_jobs integer, worker uuid, lease interval, oversample integer DEFAULT 2
) RETURNS TABLE (
    id uuid, queue text, actor text, epoch bigint, attempt integer, max_attempts smallint, priority smallint,
    payload jsonb, payload_version integer, scheduled_at timestamptz, schedule_to_close timestamptz,
    start_to_close interval, fairness_key text, identity_key text, metadata jsonb, tags text[], trace_context text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    session record := "{schema}".check_claim(
        worker, queues, array_fill(max_jobs, ARRAY[coalesce(cardinality(queues), 0)]), lease, oversample);
    actors text[] := session.actors;
    lane_queues text[];
    lane_actors text[];
    parts text[];
    full_parts text[];
    weights integer[];
    share integer;
    got integer;
BEGIN
    IF actors = '{}' THEN
        RETURN;
    END IF;
    SELECT array_agg(q.queue), array_agg(a.actor) INTO lane_queues, lane_actors
    FROM (SELECT DISTINCT u.queue FROM unnest(queues) u(queue)) q CROSS JOIN unnest(actors) a(actor)
    WHERE (q.queue = ANY (session.paused)) IS NOT TRUE AND (q.queue = ANY (session.turning)) IS NOT TRUE;
    IF session.mixed IS NOT NULL THEN
        PERFORM "{schema}".merge_cohorts(m.queue, actors, 500)
        FROM unnest(session.mixed) m(queue) WHERE (m.queue = ANY (session.paused)) IS NOT TRUE;
    END IF;
    IF session.turning IS NULL THEN
        IF cardinality(lane_queues) = 1 THEN
            RETURN QUERY SELECT l.id, l.queue, l.actor, l.epoch, l.attempt, l.max_attempts, l.priority, l.payload,
                    l.payload_version, l.scheduled_at, l.schedule_to_close, l.start_to_close, l.fairness_key,
                    l.identity_key, l.metadata, l.tags, l.trace_context
                FROM "{schema}".claim_lane(worker, lane_queues[1], lane_actors[1], max_jobs, lease) l
                ORDER BY l.priority DESC, l.scheduled_at, l.id;
        ELSIF lane_queues IS NOT NULL THEN
            RETURN QUERY SELECT g.id, g.queue, g.actor, g.epoch, g.attempt, g.max_attempts, g.priority, g.payload,
                    g.payload_version, g.scheduled_at, g.schedule_to_close, g.start_to_close, g.fairness_key,
                    g.identity_key, g.metadata, g.tags, g.trace_context
                FROM "{schema}".claim_group(worker, lane_queues, lane_actors, max_jobs, lease, oversample) g;
        END IF;
        RETURN;
    END IF;
    -- A part is a queue in round_robin mode, or NULL: all those in strict order.
    SELECT array_agg(p.part ORDER BY p.place), array_agg(p.weight ORDER BY p.place) INTO parts, weights
    FROM (
        SELECT t.queue AS part, 1 AS weight, random() AS place FROM unnest(session.turning) t(queue)
        WHERE (t.queue = ANY (session.paused)) IS NOT TRUE
        UNION ALL
        SELECT NULL, cardinality(lane_queues) / cardinality(actors), random() WHERE lane_queues IS NOT NULL
    ) p;
    FOR pass IN 1 .. 2 LOOP
        FOR nth IN 1 .. coalesce(cardinality(parts), 0) LOOP
            EXIT WHEN max_jobs <= 0;
            share := CASE pass
                WHEN 1 THEN ceil(max_jobs::float8 * weights[nth] / (SELECT sum(w.weight) FROM unnest(weights[nth:]) w(weight)))
                ELSE max_jobs END;
            IF parts[nth] IS NULL THEN
                RETURN QUERY SELECT g.id, g.queue, g.actor, g.epoch, g.attempt, g.max_attempts, g.priority, g.payload,
                    g.payload_version, g.scheduled_at, g.schedule_to_close, g.start_to_close, g.fairness_key,
                    g.identity_key, g.metadata, g.tags, g.trace_context
                FROM "{schema}".claim_group(worker, lane_queues, lane_actors, share, lease, oversample) g;
            ELSE
                RETURN QUERY SELECT t.id, t.queue, t.actor, t.epoch, t.attempt, t.max_attempts, t.priority, t.payload,
                    t.payload_version, t.scheduled_at, t.schedule_to_close, t.start_to_close, t.fairness_key,
                    t.identity_key, t.metadata, t.tags, t.trace_context
                FROM "{schema}".start_turn(parts[nth], actors) s
                CROSS JOIN LATERAL "{schema}".claim_turns(
                    worker, parts[nth], actors, s.from_actor, s.from_cohort, share, lease) t;
            END IF;
            GET DIAGNOSTICS got = ROW_COUNT;
            max_jobs := max_jobs - got;
            IF got = share THEN
                full_parts := array_append(full_parts, parts[nth]);
            END IF;
        END LOOP;
        -- Those that gave all they were asked for may have more.
        parts := full_parts;
    END LOOP;
END
$$;
