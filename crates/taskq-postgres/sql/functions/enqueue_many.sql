-- Inserts jobs; one row per document, in their order: `created`; `existing` where the id or the idempotency key is taken,
-- with the id and status of the job that is there; `replaced` where a key was taken over from a job that has ended.
-- Called by: clients, enqueue. Locks: idempotency keys, in their order; the inserted rows. Indexes: jobs_pkey,
-- idempotency_keys_pkey.
-- One invalid document refuses the whole call. Works at every isolation level; above READ COMMITTED it may
-- raise 40001 when another transaction inserts the same id. A repeated id is a row of the answer, never an
-- error, since an error would abort the caller's transaction.
CREATE OR REPLACE FUNCTION "{schema}".enqueue_many(jobs jsonb)
RETURNS TABLE (id uuid, outcome text, status text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := "{schema}".clock_now();
    bad record;
    ids uuid[];
    statuses text[];
    created uuid[];
    keyed bigint[];
    key_jobs uuid[];
    key_outcomes text[];
    key_actors text[];
    ready text[];
    due boolean;
BEGIN
    IF jobs IS NULL OR jsonb_typeof(jobs) <> 'array' THEN
        PERFORM "{schema}".refuse(format('jobs is %s, not a JSON array', coalesce('a JSON ' || jsonb_typeof(jobs), 'null')));
    END IF;
    SELECT p.element, p.problem, p.code INTO bad FROM "{schema}".job_problem(jobs, now) p;
    IF bad.problem IS NOT NULL THEN
        PERFORM "{schema}".refuse(bad.problem, bad.element, bad.code);
    END IF;

    SELECT array_agg(coalesce((d.job ->> 'id')::uuid, "{schema}".make_id(now, d.nth)) ORDER BY d.nth) INTO ids
    FROM jsonb_array_elements(jobs) WITH ORDINALITY d(job, nth);
    IF jobs @? '$[*].idempotency_key ? (@ != null)' THEN
        SELECT array_agg(k.nth), array_agg(k.job_id), array_agg(k.outcome), array_agg(k.actor)
        INTO keyed, key_jobs, key_outcomes, key_actors
        FROM "{schema}".take_keys(jobs, ids, now) k;
    END IF;

    WITH docs AS MATERIALIZED (
        SELECT d.nth, d.job, d.id, t.scheduled_at,
            CASE WHEN t.scheduled_at > now THEN 'scheduled' ELSE 'pending' END AS status
        FROM ROWS FROM (jsonb_array_elements(jobs), unnest(ids)) WITH ORDINALITY d(job, id, nth)
        CROSS JOIN LATERAL (
            SELECT coalesce((d.job ->> 'scheduled_at')::timestamptz, now + (d.job ->> 'delay')::interval, now) AS scheduled_at
        ) t
    ), written AS (
        INSERT INTO "{schema}".jobs AS j (
            id, created_at, priority, max_attempts, payload_version, scheduled_at, status, queue, actor, payload,
            schedule_to_close, start_to_close, retry_policy, trace_context, metadata, tags)
        SELECT d.id, now,
            coalesce((d.job ->> 'priority')::numeric::smallint, 0),
            coalesce((d.job ->> 'max_attempts')::numeric::smallint, 20),
            coalesce((d.job ->> 'payload_version')::numeric::integer, 1),
            d.scheduled_at, d.status::"{schema}".job_status,
            coalesce(d.job ->> 'queue', 'default'), d.job ->> 'actor', d.job -> 'payload',
            (d.job ->> 'schedule_to_close')::timestamptz, (d.job ->> 'start_to_close')::interval,
            nullif(d.job -> 'retry_policy', 'null'), d.job ->> 'trace_context', nullif(d.job -> 'metadata', 'null'),
            CASE WHEN jsonb_typeof(d.job -> 'tags') = 'array' AND d.job -> 'tags' <> '[]'
                THEN ARRAY(SELECT t.tag FROM jsonb_array_elements_text(d.job -> 'tags') t(tag)) END
        FROM docs d
        LEFT JOIN unnest(keyed, key_outcomes) k(nth, outcome) ON k.nth = d.nth
        WHERE k.outcome IS DISTINCT FROM 'existing'
        -- In the order of ids, so that two calls with the same ids cannot wait for each other.
        ORDER BY d.id, d.nth
        ON CONFLICT ON CONSTRAINT jobs_pkey DO NOTHING
        RETURNING j.id, j.queue, j.status, j.scheduled_at
    ), told AS (
        SELECT array_agg(DISTINCT w.queue) FILTER (WHERE w.status = 'pending') AS ready,
            -- The leader looks at least once a second by itself.
            coalesce(bool_or(w.status = 'scheduled' AND w.scheduled_at < now + interval '2 seconds'), false) AS due
        FROM written w JOIN docs d ON d.id = w.id
        WHERE coalesce(d.job ->> 'notify', 'default') <> 'none'
    )
    SELECT (SELECT array_agg(d.status ORDER BY d.nth) FROM docs d), (SELECT array_agg(w.id) FROM written w), told.ready, told.due
    INTO statuses, created, ready, due
    FROM told;

    IF created IS NOT NULL THEN
        PERFORM "{schema}".wake(ready, due);
        IF "{schema}".event_level() = 'all' THEN
            INSERT INTO "{schema}".job_events (job_id, occurred_at, kind) SELECT c.id, now, 'enqueued' FROM unnest(created) c(id);
        END IF;
    END IF;
    IF EXISTS (
        SELECT FROM unnest(key_jobs, key_outcomes, key_actors) k(id, outcome, actor)
        CROSS JOIN LATERAL (SELECT j.actor FROM "{schema}".jobs j WHERE j.id = k.id OFFSET 0) j
        WHERE k.outcome <> 'existing' AND j.actor <> k.actor
    ) THEN
        -- The key would stand for a job that is not this actor's.
        PERFORM "{schema}".refuse('an idempotency key cannot be bound to an id that a job of another actor has');
    END IF;
    IF keyed IS NULL AND cardinality(created) = cardinality(ids) THEN
        RETURN QUERY SELECT n.id, 'created'::text, n.status FROM unnest(ids, statuses) n(id, status);
        RETURN;
    END IF;
    -- A later statement, so that it sees what a concurrent call with the same id has committed.
    RETURN QUERY
        SELECT n.job_id,
            CASE WHEN n.key_outcome = 'existing' THEN 'existing'
                WHEN n.first AND c.id IS NOT NULL THEN coalesce(n.key_outcome, 'created')
                ELSE 'existing' END,
            j.status::text
        FROM (
            SELECT u.nth, coalesce(k.job_id, u.id) AS job_id, k.outcome AS key_outcome,
                row_number() OVER (PARTITION BY u.id, k.outcome IS NOT DISTINCT FROM 'existing' ORDER BY u.nth) = 1 AS first
            FROM unnest(ids) WITH ORDINALITY u(id, nth)
            LEFT JOIN unnest(keyed, key_jobs, key_outcomes) k(nth, job_id, outcome) ON k.nth = u.nth
        ) n
        LEFT JOIN unnest(created) c(id) ON c.id = n.job_id
        LEFT JOIN LATERAL (SELECT j.status FROM "{schema}".jobs j WHERE j.id = n.job_id OFFSET 0) j ON true
        ORDER BY n.nth;
END
$$;
