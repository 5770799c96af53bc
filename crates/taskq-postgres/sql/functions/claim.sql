-- Claims at most `max_jobs` ready jobs of the queues in one order; jobs come in the order they should start.
-- Called by: workers in any language. Locks and indexes: see claim_group.
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
    paused text[] := "{schema}".paused_queues(queues);
    lane_queues text[];
    lane_actors text[];
BEGIN
    SELECT array_agg(q.queue), array_agg(a.actor) INTO lane_queues, lane_actors
    FROM (SELECT DISTINCT u.queue FROM unnest(queues) u(queue)) q CROSS JOIN unnest(actors) a(actor)
    WHERE (q.queue = ANY (paused)) IS NOT TRUE;
    IF lane_queues IS NOT NULL THEN
        RETURN QUERY SELECT * FROM "{schema}".claim_group(worker, lane_queues, lane_actors, max_jobs, lease, oversample);
    END IF;
END
$$;
