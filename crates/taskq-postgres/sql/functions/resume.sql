-- Resumes a paused queue (or, with `kind` actor, an actor) and wakes its workers. Returns false when it was not paused.
-- Called by: operators. Locks: the row. Indexes: the primary key.
CREATE OR REPLACE FUNCTION "{schema}".resume(kind text, name text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    now timestamptz := "{schema}".clock_now();
    resumed boolean;
BEGIN
    PERFORM "{schema}".check_lane_part(kind, name);
    IF kind = 'queue' THEN
        UPDATE "{schema}".queues q SET paused_at = NULL, updated_at = now WHERE q.queue = name AND q.paused_at IS NOT NULL;
        resumed := FOUND;
        IF resumed THEN
            PERFORM "{schema}".wake(ARRAY[name]);
        END IF;
    ELSE
        UPDATE "{schema}".actor_config a SET paused_at = NULL, updated_at = now WHERE a.actor = name AND a.paused_at IS NOT NULL;
        resumed := FOUND;
        IF resumed THEN
            -- Which queues hold the actor's jobs is not known cheaply; its workers' queues are.
            PERFORM "{schema}".wake(array_agg(DISTINCT q.queue))
            FROM "{schema}".workers w CROSS JOIN unnest(w.queues) q(queue)
            WHERE w.state = 'active' AND name = ANY (w.actors);
        END IF;
    END IF;
    RETURN resumed;
END
$$;
