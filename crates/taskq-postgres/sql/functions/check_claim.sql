-- Checks the arguments of a claim and the worker's session; says which actors the worker registered that are not paused,
-- and of the queues which are paused, which let their lanes take turns, and which are in strict order but may have jobs with
-- a cohort; each of the latter NULL when there is none.
-- Called by: claim, claim_slots. Locks: none, so an empty claim writes nothing. Indexes: workers_pkey, actor_config_pkey,
-- queues_pkey.
-- One query, since a claim that finds one job pays for every statement that starts.
DROP FUNCTION IF EXISTS "{schema}".queue_settings(text[]);
DROP FUNCTION IF EXISTS "{schema}".check_claim(uuid, text[], integer[], interval, integer);
CREATE OR REPLACE FUNCTION "{schema}".check_claim(
    worker uuid, queues text[], slots integer[], lease interval, oversample integer,
    OUT actors text[], OUT paused text[], OUT turning text[], OUT mixed text[]
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    registered text[];
    state text;
    ends timestamptz;
    pauses boolean;
    special boolean;
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
    SELECT w.actors, w.queues, w.state, w.lease_expires_at,
        EXISTS (SELECT FROM "{schema}".actor_config c WHERE c.actor = ANY (w.actors) AND c.paused_at IS NOT NULL),
        EXISTS (SELECT FROM "{schema}".queues q WHERE q.queue = ANY ($2)
            AND (q.paused_at IS NOT NULL OR q.mode <> 'strict_fifo' OR q.cohorts))
    INTO actors, registered, state, ends, pauses, special
    FROM "{schema}".workers w WHERE w.id = worker;
    IF state IS DISTINCT FROM 'active' OR ends <= "{schema}".clock() THEN
        RAISE EXCEPTION USING ERRCODE = 'TQ001', MESSAGE = format('worker %s is unknown, lost or expired', worker);
    END IF;
    IF NOT queues <@ registered THEN
        PERFORM "{schema}".refuse(format('worker %s has not registered the queue "%s"', worker,
            (SELECT q.name FROM unnest(queues) q(name) WHERE q.name <> ALL (registered) OR q.name IS NULL LIMIT 1)));
    END IF;
    IF special THEN
        SELECT array_agg(q.queue) FILTER (WHERE q.paused_at IS NOT NULL),
            array_agg(q.queue) FILTER (WHERE q.mode = 'round_robin'),
            array_agg(q.queue) FILTER (WHERE q.cohorts AND q.mode = 'strict_fifo')
        INTO paused, turning, mixed
        FROM "{schema}".queues q WHERE q.queue = ANY ($2);
    END IF;
    IF pauses THEN
        actors := ARRAY(
            SELECT a.name FROM unnest(actors) a(name)
            WHERE NOT EXISTS (SELECT FROM "{schema}".actor_config c WHERE c.actor = a.name AND c.paused_at IS NOT NULL));
    END IF;
END
$$;
