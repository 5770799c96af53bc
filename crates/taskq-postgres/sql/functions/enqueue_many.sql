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
    ids uuid[];
    has_keys boolean;
    keyed bigint[];
    key_jobs uuid[];
    key_outcomes text[];
    key_actors text[];
    created uuid[];
    all_pending boolean;
    ready text[];
    due boolean;
BEGIN
    PERFORM "{schema}".check_jobs(jobs, now);
    SELECT array_agg(coalesce((d.job ->> 'id')::uuid, "{schema}".make_id(now, d.nth))),
        bool_or(d.job ->> 'idempotency_key' IS NOT NULL),
        array_agg(DISTINCT coalesce(d.job ->> 'queue', 'default') COLLATE "C") FILTER (WHERE t.scheduled_at <= now AND n.wakes),
        -- The leader looks at least once a second by itself.
        coalesce(bool_or(t.scheduled_at > now AND t.scheduled_at < now + interval '2 seconds' AND n.wakes), false)
    INTO ids, has_keys, ready, due
    FROM jsonb_array_elements(jobs) WITH ORDINALITY d(job, nth)
    CROSS JOIN LATERAL (
        SELECT coalesce((d.job ->> 'scheduled_at')::timestamptz, now + (d.job ->> 'delay')::interval, now) AS scheduled_at
    ) t
    CROSS JOIN LATERAL (SELECT coalesce(d.job ->> 'notify', 'default') <> 'none' AS wakes) n;
    IF has_keys THEN
        SELECT array_agg(k.nth), array_agg(k.job_id), array_agg(k.outcome), array_agg(k.actor)
        INTO keyed, key_jobs, key_outcomes, key_actors
        FROM (
            SELECT array_agg(d.nth) AS nths, array_agg(d.job ->> 'actor') AS actors,
                array_agg(d.job ->> 'idempotency_key') AS keys, array_agg(d.id) AS wanted,
                array_agg(coalesce(d.job ->> 'on_finished' = 'run_again', false)) AS again
            FROM ROWS FROM (jsonb_array_elements(jobs), unnest(ids)) WITH ORDINALITY d(job, id, nth)
            WHERE d.job ->> 'idempotency_key' IS NOT NULL
        ) w
        CROSS JOIN LATERAL "{schema}".take_keys(w.nths, w.actors, w.keys, w.wanted, w.again, now) k;
    END IF;

    WITH written AS (
        INSERT INTO "{schema}".jobs AS j (
            id, created_at, priority, max_attempts, payload_version, scheduled_at, status, queue, actor, payload,
            schedule_to_close, start_to_close, retry_policy, trace_context, metadata, tags)
        SELECT d.id, now,
            coalesce((d.job ->> 'priority')::numeric::smallint, 0),
            coalesce((d.job ->> 'max_attempts')::numeric::smallint, 20),
            coalesce((d.job ->> 'payload_version')::numeric::integer, 1),
            t.scheduled_at, CASE WHEN t.scheduled_at > now THEN 'scheduled' ELSE 'pending' END::"{schema}".job_status,
            coalesce(d.job ->> 'queue', 'default'), d.job ->> 'actor', d.job -> 'payload',
            (d.job ->> 'schedule_to_close')::timestamptz, (d.job ->> 'start_to_close')::interval,
            nullif(d.job -> 'retry_policy', 'null'), d.job ->> 'trace_context', nullif(d.job -> 'metadata', 'null'),
            CASE WHEN jsonb_typeof(d.job -> 'tags') = 'array' AND d.job -> 'tags' <> '[]'
                THEN ARRAY(SELECT t.tag FROM jsonb_array_elements_text(d.job -> 'tags') t(tag)) END
        FROM ROWS FROM (jsonb_array_elements(jobs), unnest(ids)) WITH ORDINALITY d(job, id, nth)
        CROSS JOIN LATERAL (
            SELECT coalesce((d.job ->> 'scheduled_at')::timestamptz, now + (d.job ->> 'delay')::interval, now) AS scheduled_at
        ) t
        LEFT JOIN unnest(keyed, key_outcomes) k(nth, outcome) ON k.nth = d.nth
        WHERE k.outcome IS DISTINCT FROM 'existing'
        -- In the order of ids, so that two calls with the same ids cannot wait for each other.
        ORDER BY d.id, d.nth
        ON CONFLICT ON CONSTRAINT jobs_pkey DO NOTHING
        RETURNING j.id, j.status
    )
    SELECT array_agg(w.id), bool_and(w.status = 'pending') INTO created, all_pending FROM written w;

    IF created IS NOT NULL THEN
        PERFORM "{schema}".wake(ready, due);
        IF "{schema}".event_level() = 'all' THEN
            INSERT INTO "{schema}".job_events (job_id, occurred_at, kind) SELECT c.id, now, 'enqueued' FROM unnest(created) c(id);
        END IF;
        IF keyed IS NULL AND all_pending AND cardinality(created) = cardinality(ids) THEN
            RETURN QUERY SELECT u.id, 'created'::text, 'pending'::text FROM unnest(ids) u(id);
            RETURN;
        END IF;
    END IF;
    RETURN QUERY
        SELECT a.id, a.outcome, a.status
        FROM "{schema}".enqueue_answers(ids, created, keyed, key_jobs, key_outcomes, key_actors) a;
END
$$;
