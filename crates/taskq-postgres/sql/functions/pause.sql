-- Pauses a queue (or, with `kind` actor, an actor): its jobs are not claimed until it is resumed; what runs goes on.
-- Returns false when it was paused already. Called by: operators. Locks: the row. Indexes: the primary key.
CREATE OR REPLACE FUNCTION "{schema}".pause(kind text, name text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    now timestamptz := "{schema}".clock_now();
BEGIN
    PERFORM "{schema}".check_lane_part(kind, name);
    IF kind = 'queue' THEN
        INSERT INTO "{schema}".queues AS q (queue, paused_at, updated_at) VALUES (name, now, now)
        ON CONFLICT (queue) DO UPDATE SET paused_at = now, updated_at = now WHERE q.paused_at IS NULL;
    ELSE
        INSERT INTO "{schema}".actor_config AS a (actor, paused_at, updated_at) VALUES (name, now, now)
        ON CONFLICT (actor) DO UPDATE SET paused_at = now, updated_at = now WHERE a.paused_at IS NULL;
    END IF;
    RETURN FOUND;
END
$$;
