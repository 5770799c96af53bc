-- The raw SQL loop that a worker is compared with: one session claims `batch` jobs of a queue, settles them as succeeded
-- and commits each step, until nothing is ready. It changes the same columns of the same table with the same indexes as
-- the functions do, and keeps nothing else of what they promise: no lease, no fence, no reasons, no events.
-- Called by: `taskq bench drain`, outside a transaction. Locks: the jobs, with SKIP LOCKED. Indexes: jobs_ready_idx,
-- jobs_pkey.

-- Of the session, so that the plans are index probes whatever the statistics say; a procedure that commits cannot have
-- settings of its own.
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET jit = off;
SET plan_cache_mode = force_generic_plan;

CREATE PROCEDURE pg_temp.drain(of_queue text, actors text[], batch integer, INOUT ended bigint)
LANGUAGE plpgsql
AS $$
DECLARE
    worker uuid := gen_random_uuid();
    heads uuid[];
    locked tid[];
    running uuid[];
    payloads jsonb[];
BEGIN
    ended := 0;
    LOOP
        -- The heads of all lanes, twice as many as an even share, merged.
        heads := ARRAY(
            SELECT h.id
            FROM unnest(actors) a(actor)
            CROSS JOIN LATERAL (
                SELECT j.priority, j.scheduled_at, j.id FROM "{schema}".jobs j
                WHERE j.queue = of_queue AND j.actor = a.actor AND j.cohort = '' AND j.status = 'pending'
                ORDER BY j.priority DESC, j.scheduled_at, j.id
                LIMIT ceil(batch * 2.0 / cardinality(actors))
            ) h
            ORDER BY h.priority DESC, h.scheduled_at, h.id
            LIMIT batch
        );
        EXIT WHEN heads = '{}';
        -- By key; the status as text, which the index of ready jobs cannot serve.
        locked := ARRAY(
            SELECT l.ctid
            FROM unnest(heads) h(id)
            CROSS JOIN LATERAL (
                SELECT j.ctid FROM "{schema}".jobs j
                WHERE j.id = h.id AND j.status::text = 'pending'
                FOR NO KEY UPDATE OF j SKIP LOCKED
            ) l
        );
        WITH claimed AS (
            UPDATE "{schema}".jobs j
            SET status = 'running', attempt = j.attempt + 1, claim_epoch = j.claim_epoch + 1, locked_by_worker = worker,
                started_at = clock_timestamp()
            WHERE j.ctid = ANY (locked)
            RETURNING j.id, j.payload
        )
        SELECT array_agg(c.id), array_agg(c.payload) INTO running, payloads FROM claimed c;
        COMMIT;
        UPDATE "{schema}".jobs j
        SET status = 'succeeded', finished_at = now(), prune_at = now() + interval '1 hour'
        WHERE j.id = ANY (running) AND j.locked_by_worker = worker AND j.status::text = 'running';
        COMMIT;
        ended := ended + cardinality(running);
    END LOOP;
END
$$;
