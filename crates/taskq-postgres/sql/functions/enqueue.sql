-- Inserts one job: `created`, `existing` or `replaced`, as enqueue_many says it.
-- Called by: clients. Locks and indexes: see enqueue_many; settings_pkey.
-- A document of common fields takes a short way with one statement; whatever else there is to say of it, enqueue_many says.
CREATE OR REPLACE FUNCTION "{schema}".enqueue(job jsonb)
RETURNS TABLE (id uuid, outcome text, status text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz;
    -- As event_level says it, without a call of its own.
    tells_all boolean;
BEGIN
    IF "{schema}".obviously_valid(job) THEN
        now := "{schema}".clock_now();
        INSERT INTO "{schema}".jobs AS j (
            id, created_at, priority, max_attempts, payload_version, scheduled_at, status, queue, actor, payload)
        VALUES (
            coalesce((job ->> 'id')::uuid, "{schema}".make_id(now, 1)), now, coalesce((job ->> 'priority')::smallint, 0),
            coalesce((job ->> 'max_attempts')::smallint, 20), coalesce((job ->> 'payload_version')::integer, 1), now, 'pending',
            coalesce(job ->> 'queue', 'default'), job ->> 'actor', job -> 'payload')
        ON CONFLICT ON CONSTRAINT jobs_pkey DO NOTHING
        RETURNING j.id, (SELECT s.value = '"all"' FROM "{schema}".settings s WHERE s.name = 'event_level') INTO id, tells_all;
        IF FOUND THEN
            IF job ->> 'notify' IS DISTINCT FROM 'none' THEN
                PERFORM pg_notify('{schema}:ready', coalesce(job ->> 'queue', 'default'));
            END IF;
            IF tells_all THEN
                INSERT INTO "{schema}".job_events (job_id, occurred_at, kind) VALUES (id, now, 'enqueued');
            END IF;
            outcome := 'created';
            status := 'pending';
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    RETURN QUERY SELECT e.id, e.outcome, e.status FROM "{schema}".enqueue_many(jsonb_build_array(job)) e;
END
$$;
