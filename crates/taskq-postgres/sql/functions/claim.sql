-- Claims at most `max_jobs` ready jobs of the queues; jobs come in the order they should start.
-- Called by: workers in any language. Locks and indexes: see claim_group, claim_turns, start_turn, merge_cohorts.
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
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    actors text[] := "{schema}".check_claim(
        worker, queues, array_fill(max_jobs, ARRAY[coalesce(cardinality(queues), 0)]), lease, oversample);
    in_order text[];
    mixed text[];
    turning text[];
    parts text[];
    full_parts text[];
    weight integer;
    weights integer;
    share integer;
    got integer;
BEGIN
    SELECT array_agg(q.queue) FILTER (WHERE s.mode IS DISTINCT FROM 'round_robin'), array_agg(q.queue) FILTER (WHERE s.cohorts AND s.mode = 'strict_fifo'),
        array_agg(q.queue) FILTER (WHERE s.mode = 'round_robin')
    INTO in_order, mixed, turning
    FROM (SELECT DISTINCT u.queue FROM unnest(queues) u(queue)) q
    LEFT JOIN "{schema}".queues s ON s.queue = q.queue
    WHERE s.paused_at IS NULL;
    IF actors = '{}' THEN
        RETURN;
    END IF;
    PERFORM "{schema}".merge_cohorts(m.queue, actors, 500) FROM unnest(mixed) m(queue);
    -- A part is a queue in round_robin mode, or NULL: all those in strict order.
    SELECT array_agg(p.part ORDER BY random()) INTO parts
    FROM (SELECT t.queue AS part FROM unnest(turning) t(queue) UNION ALL SELECT NULL WHERE in_order IS NOT NULL) p;
    weights := coalesce(cardinality(in_order), 0) + coalesce(cardinality(turning), 0);
    FOR pass IN 1 .. 2 LOOP
        FOR nth IN 1 .. coalesce(cardinality(parts), 0) LOOP
            EXIT WHEN max_jobs <= 0;
            weight := CASE WHEN parts[nth] IS NULL THEN cardinality(in_order) ELSE 1 END;
            share := CASE pass WHEN 1 THEN ceil(max_jobs::float8 * weight / weights) ELSE max_jobs END;
            weights := weights - weight;
            IF parts[nth] IS NULL THEN
                RETURN QUERY SELECT g.* FROM (
                    SELECT array_agg(q.queue) AS queues, array_agg(a.actor) AS actors
                    FROM unnest(in_order) q(queue) CROSS JOIN unnest(actors) a(actor)
                ) lanes CROSS JOIN LATERAL "{schema}".claim_group(
                    worker, lanes.queues, lanes.actors, share, lease, oversample) g;
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
        full_parts := NULL;
    END LOOP;
END
$$;
