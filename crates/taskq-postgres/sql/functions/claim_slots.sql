-- Claims ready jobs of several queues, each with its own bound, queue by queue in the order given.
-- Called by: the Rust worker. Locks and indexes: see claim_group.
CREATE OR REPLACE FUNCTION "{schema}".claim_slots(
    worker uuid, queues text[], slots integer[], lease interval, oversample integer DEFAULT 2
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
    actors text[] := "{schema}".check_claim(worker, queues, slots, lease, oversample);
    paused text[] := "{schema}".paused_queues(queues);
BEGIN
    IF cardinality(queues) > 1 THEN
        IF (SELECT count(DISTINCT q.name) FROM unnest(queues) q(name)) < cardinality(queues) THEN
            PERFORM "{schema}".refuse('a queue is named twice');
        END IF;
    END IF;
    IF actors = '{}' THEN
        RETURN;
    END IF;
    FOR nth IN 1 .. cardinality(queues) LOOP
        CONTINUE WHEN queues[nth] = ANY (paused);
        RETURN QUERY SELECT * FROM "{schema}".claim_group(
            worker, array_fill(queues[nth], ARRAY[cardinality(actors)]), actors, slots[nth], lease, oversample);
    END LOOP;
END
$$;
