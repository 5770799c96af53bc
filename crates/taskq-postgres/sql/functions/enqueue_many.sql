-- Inserts jobs; one row per document, in their order: `created`; `existing` where the id or the idempotency key is taken,
-- with the id and status of the job that is there; `replaced` where a key was taken over from a job that has ended.
-- Called by: clients, enqueue, enqueue_plain, enqueue_keyed, enqueue_staged. Locks: idempotency keys, in their order; the
-- inserted rows. Indexes: jobs_pkey, idempotency_keys_pkey; jobs_archive_pkey of every partition, for ids that were not made
-- just now.
-- One invalid document refuses the whole call. Works at every isolation level; above READ COMMITTED it may
-- raise 40001 when another transaction inserts the same id. A repeated id is a row of the answer, never an
-- error, since an error would abort the caller's transaction.
CREATE OR REPLACE FUNCTION "{schema}".enqueue_many(jobs jsonb)
RETURNS TABLE (id uuid, outcome text, status text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := "{schema}".clock_now();
    seed uuid := gen_random_uuid();
    ids uuid[];
    has_keys boolean;
    all_pending boolean;
    ready text[];
    due boolean;
    keyed bigint[];
    key_jobs uuid[];
    key_outcomes text[];
    key_actors text[];
    passed_over bigint[];
    created uuid[];
    is_written boolean := false;
    doubtful uuid[];
    archived uuid[];
BEGIN
    PERFORM "{schema}".check_jobs(jobs, now);
    SELECT array_agg(coalesce((d.job ->> 'id')::uuid, "{schema}".seeded_id(now, d.nth, seed))),
        bool_or(d.job ->> 'idempotency_key' IS NOT NULL), bool_and(t.scheduled_at <= now),
        array_agg(DISTINCT coalesce(d.job ->> 'queue', 'default') COLLATE "C") FILTER (WHERE t.scheduled_at <= now AND n.wakes),
        -- The leader looks at least once a second by itself.
        coalesce(bool_or(t.scheduled_at > now AND t.scheduled_at < now + interval '2 seconds' AND n.wakes), false)
    INTO ids, has_keys, all_pending, ready, due
    FROM jsonb_array_elements(jobs) WITH ORDINALITY d(job, nth)
    CROSS JOIN LATERAL (
        SELECT coalesce((d.job ->> 'scheduled_at')::timestamptz, now + (d.job ->> 'delay')::interval, now) AS scheduled_at
    ) t
    CROSS JOIN LATERAL (SELECT coalesce(d.job ->> 'notify', 'default') <> 'none' AS wakes) n;
    IF has_keys THEN
        SELECT array_agg(k.nth), array_agg(k.job_id), array_agg(k.outcome), array_agg(k.actor),
            array_agg(k.nth) FILTER (WHERE k.outcome = 'existing')
        INTO keyed, key_jobs, key_outcomes, key_actors, passed_over
        FROM (
            SELECT array_agg(d.nth) AS nths, array_agg(d.job ->> 'actor') AS actors,
                array_agg(d.job ->> 'idempotency_key') AS keys, array_agg(d.id) AS wanted,
                array_agg(coalesce(d.job ->> 'on_finished' = 'run_again', false)) AS again
            FROM ROWS FROM (jsonb_array_elements(jobs), unnest(ids)) WITH ORDINALITY d(job, id, nth)
            WHERE d.job ->> 'idempotency_key' IS NOT NULL
        ) w
        CROSS JOIN LATERAL "{schema}".take_keys(w.nths, w.actors, w.keys, w.wanted, w.again, now) k;
    END IF;

    -- In the order of ids, so that two calls with the same ids cannot wait for each other. For many jobs it costs less to
    -- write them in the hope that no id is taken, and once more when one is, than to look for each.
    IF cardinality(ids) >= 100 AND passed_over IS NULL THEN
        BEGIN
            INSERT INTO "{schema}".jobs (
                id, created_at, priority, max_attempts, payload_version, scheduled_at, status, queue, actor, payload,
                schedule_to_close, start_to_close, retry_policy, trace_context, metadata, tags, fairness_key, cohort, keep)
            SELECT r.id, r.created_at, r.priority, r.max_attempts, r.payload_version, r.scheduled_at, r.status, r.queue, r.actor,
                r.payload, r.schedule_to_close, r.start_to_close, r.retry_policy, r.trace_context, r.metadata, r.tags,
                r.fairness_key, r.cohort, r.keep
            FROM "{schema}".document_rows(jobs, ids, NULL, now) r
            ORDER BY r.id;
            created := ids;
            is_written := true;
        EXCEPTION WHEN unique_violation THEN
            NULL;
        END;
    END IF;
    IF NOT is_written THEN
        WITH written AS (
            INSERT INTO "{schema}".jobs AS j (
                id, created_at, priority, max_attempts, payload_version, scheduled_at, status, queue, actor, payload,
                schedule_to_close, start_to_close, retry_policy, trace_context, metadata, tags, fairness_key, cohort, keep)
            SELECT r.id, r.created_at, r.priority, r.max_attempts, r.payload_version, r.scheduled_at, r.status, r.queue, r.actor,
                r.payload, r.schedule_to_close, r.start_to_close, r.retry_policy, r.trace_context, r.metadata, r.tags,
                r.fairness_key, r.cohort, r.keep
            FROM "{schema}".document_rows(jobs, ids, passed_over, now) r
            ORDER BY r.id, r.nth
            ON CONFLICT ON CONSTRAINT jobs_pkey DO NOTHING
            RETURNING j.id
        )
        SELECT array_agg(w.id) INTO created FROM written w;
    END IF;

    -- Looked for when the jobs are written, so that one that is being archived meanwhile is found on one of the two sides.
    SELECT array_agg(u.id) INTO doubtful FROM unnest(ids) u(id)
    WHERE u.id NOT BETWEEN "{schema}".id_floor(now - interval '30 seconds') AND "{schema}".id_floor(now + interval '30 seconds');
    IF doubtful IS NOT NULL AND created IS NOT NULL THEN
        archived := "{schema}".archived_ids(doubtful);
        IF archived IS NOT NULL THEN
            DELETE FROM "{schema}".jobs j WHERE j.id = ANY (archived) AND j.id = ANY (created);
            created := (SELECT array_agg(c.id) FROM unnest(created) c(id) WHERE c.id <> ALL (archived));
        END IF;
    END IF;

    IF created IS NOT NULL THEN
        PERFORM "{schema}".wake(ready, due);
        IF "{schema}".event_level() = 'all' THEN
            INSERT INTO "{schema}".job_events (job_id, occurred_at, kind) SELECT c.id, now, 'enqueued' FROM unnest(created) c(id);
        END IF;
        IF NOT has_keys AND all_pending AND cardinality(created) = cardinality(ids) THEN
            RETURN QUERY SELECT u.id, 'created'::text, 'pending'::text FROM unnest(ids) u(id);
            RETURN;
        END IF;
    END IF;
    RETURN QUERY
        SELECT a.id, a.outcome, a.status
        FROM "{schema}".enqueue_answers(ids, created, keyed, key_jobs, key_outcomes, key_actors) a;
END
$$;
