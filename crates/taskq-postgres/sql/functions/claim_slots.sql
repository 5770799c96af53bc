-- Claims ready jobs of several queues, each with its own bound, queue by queue in the order given. The lane that a queue
-- in round_robin mode served last is its turn: `cohort` of its last row, which is null for a queue in strict order.
-- Called by: the Rust worker. Locks and indexes: see claim_group, claim_lane, claim_turns, merge_cohorts.
DROP FUNCTION IF EXISTS "{schema}".claim_slots(uuid, text[], integer[], interval, integer);
CREATE OR REPLACE FUNCTION "{schema}".claim_slots(
    worker uuid, queues text[], slots integer[], lease interval, oversample integer DEFAULT 2,
    turn_actors text[] DEFAULT NULL, turn_cohorts text[] DEFAULT NULL
) RETURNS TABLE (
    id uuid, queue text, actor text, epoch bigint, attempt integer, max_attempts smallint, priority smallint,
    payload jsonb, payload_version integer, scheduled_at timestamptz, schedule_to_close timestamptz,
    start_to_close interval, fairness_key text, identity_key text, metadata jsonb, tags text[], trace_context text,
    cohort text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    session record := "{schema}".check_claim(worker, queues, slots, lease, oversample);
    actors text[] := session.actors;
    from_actor text;
    from_cohort text;
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
        CONTINUE WHEN queues[nth] = ANY (session.paused);
        IF queues[nth] = ANY (session.turning) THEN
            from_actor := turn_actors[nth];
            -- Behind that lane: no key has a control character.
            from_cohort := coalesce(turn_cohorts[nth], '') || E'\x01';
            IF from_actor IS NULL THEN
                SELECT s.from_actor, s.from_cohort INTO from_actor, from_cohort FROM "{schema}".start_turn(queues[nth], actors) s;
            END IF;
            RETURN QUERY SELECT * FROM "{schema}".claim_turns(
                worker, queues[nth], actors, from_actor, from_cohort, slots[nth], lease);
            CONTINUE;
        END IF;
        IF queues[nth] = ANY (session.mixed) THEN
            PERFORM "{schema}".merge_cohorts(queues[nth], actors, 500);
        END IF;
        IF cardinality(actors) = 1 THEN
            RETURN QUERY SELECT * FROM "{schema}".claim_lane(worker, queues[nth], actors[1], slots[nth], lease);
        ELSE
            RETURN QUERY SELECT * FROM "{schema}".claim_group(
                worker, array_fill(queues[nth], ARRAY[cardinality(actors)]), actors, slots[nth], lease, oversample);
        END IF;
    END LOOP;
END
$$;
