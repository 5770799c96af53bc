-- Checks the arguments of a claim and the worker's session; returns the actors that the worker registered and that are not
-- paused.
-- Called by: claim, claim_slots. Locks: none, so an empty claim writes nothing. Indexes: workers_pkey,
-- actor_config_pkey.
CREATE OR REPLACE FUNCTION "{schema}".check_claim(
    worker uuid, queues text[], slots integer[], lease interval, oversample integer
) RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    session record;
BEGIN
    -- One condition without a query for what is nearly always so; to find out what is wrong costs more.
    IF (current_setting('transaction_isolation') = 'read committed' AND worker IS NOT NULL
        AND lease BETWEEN interval '1 second' AND interval '1 day' AND cardinality(queues) > 0
        AND cardinality(slots) = cardinality(queues) AND 1 <= ALL (slots) AND 10000 >= ALL (slots)
        AND oversample BETWEEN 1 AND 100) IS NOT TRUE THEN
        PERFORM "{schema}".require_read_committed('claim');
        PERFORM "{schema}".check_lease(worker, lease);
        IF coalesce(cardinality(queues), 0) = 0 THEN
            PERFORM "{schema}".refuse('a claim needs at least one queue');
        ELSIF cardinality(slots) IS DISTINCT FROM cardinality(queues) THEN
            PERFORM "{schema}".refuse('queues and slots differ in length');
        ELSIF EXISTS (SELECT FROM unnest(slots) s(n) WHERE coalesce(s.n NOT BETWEEN 1 AND 10000, true)) THEN
            PERFORM "{schema}".refuse('a claim asks for fewer than 1 or more than 10000 jobs');
        ELSIF coalesce(oversample NOT BETWEEN 1 AND 100, true) THEN
            PERFORM "{schema}".refuse('oversample is not between 1 and 100');
        END IF;
    END IF;
    SELECT w.actors, w.queues, w.state, w.lease_expires_at, EXISTS (
        SELECT FROM "{schema}".actor_config c WHERE c.actor = ANY (w.actors) AND c.paused_at IS NOT NULL) AS paused
    INTO session
    FROM "{schema}".workers w WHERE w.id = worker;
    IF session.state IS DISTINCT FROM 'active' OR session.lease_expires_at <= "{schema}".clock() THEN
        RAISE EXCEPTION USING ERRCODE = 'TQ001', MESSAGE = format('worker %s is unknown, lost or expired', worker);
    END IF;
    IF NOT queues <@ session.queues THEN
        PERFORM "{schema}".refuse(format('worker %s has not registered the queue "%s"', worker,
            (SELECT q.name FROM unnest(queues) q(name) WHERE q.name <> ALL (session.queues) OR q.name IS NULL LIMIT 1)));
    END IF;
    IF session.paused THEN
        RETURN ARRAY(
            SELECT a.name FROM unnest(session.actors) a(name)
            WHERE NOT EXISTS (SELECT FROM "{schema}".actor_config c WHERE c.actor = a.name AND c.paused_at IS NOT NULL));
    END IF;
    RETURN session.actors;
END
$$;
