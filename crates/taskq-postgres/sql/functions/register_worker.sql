-- Starts a worker session with a lease (1 second to 1 day).
-- Called by: workers, at start and after a lost lease. Locks: none. Indexes: workers_pkey.
CREATE OR REPLACE FUNCTION "{schema}".register_worker(
    worker uuid, queues text[], actors text[], lease interval, info jsonb DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := "{schema}".clock_now();
    problem text;
BEGIN
    PERFORM "{schema}".check_lease(worker, lease);
    IF coalesce(cardinality(queues), 0) = 0 OR coalesce(cardinality(actors), 0) = 0 THEN
        PERFORM "{schema}".refuse('a worker needs at least one queue and one actor');
    END IF;
    SELECT p.problem INTO problem
    FROM (
        SELECT "{schema}".name_problem('queue', q.name) AS problem FROM unnest(queues) q(name)
        UNION ALL
        SELECT "{schema}".name_problem('actor', a.name) FROM unnest(actors) a(name)
    ) p
    WHERE p.problem IS NOT NULL
    LIMIT 1;
    IF problem IS NOT NULL THEN
        PERFORM "{schema}".refuse(problem);
    END IF;
    IF info IS NOT NULL AND jsonb_typeof(info) NOT IN ('object', 'null') THEN
        PERFORM "{schema}".refuse(format('info is a JSON %s, not an object', jsonb_typeof(info)));
    END IF;
    INSERT INTO "{schema}".workers (id, started_at, beat_at, lease_expires_at, queues, actors, info)
    SELECT worker, now, now, now + lease, (SELECT array_agg(DISTINCT q.name) FROM unnest(queues) q(name)),
        (SELECT array_agg(DISTINCT a.name) FROM unnest(actors) a(name)), nullif(info, 'null')
    ON CONFLICT ON CONSTRAINT workers_pkey DO NOTHING;
    IF NOT FOUND THEN
        PERFORM "{schema}".refuse(format('worker %s has registered before: a session needs a fresh id', worker));
    END IF;
END
$$;
