-- Inserts the jobs that this session has copied into its staging table in this transaction, as enqueue_many would; one row
-- for each that is not simply created and pending. `jobs` is how many there must be.
-- Called by: clients, for many jobs. Locks: the inserted rows, in the order in which they were staged: stage them by id.
-- Indexes: jobs_pkey, queues_pkey.
CREATE OR REPLACE FUNCTION "{schema}".enqueue_staged(jobs bigint)
RETURNS TABLE (nth bigint, id uuid, outcome text, status text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := "{schema}".clock_now();
    staged bigint;
    are_plain boolean;
    all_pending boolean;
    ready text[];
    due boolean;
    documents jsonb;
    nths integer[];
BEGIN
    -- What a session makes under the name of its staging table could be a view, whose functions would run with our rights.
    IF NOT EXISTS (
        SELECT FROM pg_class c
        WHERE c.oid = to_regclass('pg_temp."{schema}_staged"') AND c.relkind = 'r' AND pg_get_userbyid(c.relowner) = current_user
    ) THEN
        PERFORM "{schema}".refuse('this session has no staging table that prepare_staging made');
    END IF;

    -- What many jobs have in common is looked at once for each kind of them. Of a row this is all that is looked at, so a payload
    -- that is short enough for its text to be short whatever it says (a number of 16 bytes can be 147,456 digits) is not
    -- made a text, and times are compared only where there are some.
    SELECT coalesce(sum(k.jobs), 0),
        bool_and(coalesce(k.are_plain AND octet_length(k.queue) BETWEEN 1 AND 255 AND k.queue !~ '[\x01-\x1f\x7f]'
            AND octet_length(k.actor) BETWEEN 1 AND 255 AND k.actor !~ '[\x01-\x1f\x7f]'
            AND (k.notify IS NULL OR k.notify IN ('none', 'default')) AND (k.keep IS NULL OR k.keep IN ('all', 'none'))
            AND (NOT k.take_turns OR "{schema}".fairness_problem(k.queue) IS NULL), false)),
        bool_and(k.times = 1),
        array_agg(DISTINCT coalesce(k.queue, 'default')) FILTER (WHERE k.times & 1 > 0 AND k.notify IS DISTINCT FROM 'none'),
        -- The leader looks at least once a second by itself.
        coalesce(bool_or(k.times & 2 > 0 AND k.notify IS DISTINCT FROM 'none'), false)
    INTO staged, are_plain, all_pending, ready, due
    FROM (
        SELECT s.queue, s.actor, s.notify, s.keep, count(*) AS jobs,
            bool_and(coalesce(
                (pg_column_size(s.payload) <= 100 AND pg_column_compression(s.payload) IS NULL
                    OR octet_length(s.payload::text) <= 1048576)
                AND s.payload_version >= 1 AND s.max_attempts >= 1
                AND (num_nonnulls(s.scheduled_at, s.delay, s.fairness_key, s.schedule_to_close, s.start_to_close, s.retry_policy,
                        s.trace_context, s.metadata, s.tags) = 0
                    OR num_nonnulls(s.schedule_to_close, s.start_to_close, s.retry_policy, s.trace_context, s.metadata, s.tags) = 0
                    AND (s.scheduled_at IS NULL
                        OR s.scheduled_at BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 23:59:59+00' AND s.delay IS NULL)
                    AND (s.delay IS NULL OR s.delay BETWEEN '0' AND '36600 days')
                    AND (s.fairness_key IS NULL
                        OR octet_length(s.fairness_key) BETWEEN 1 AND 255 AND s.fairness_key !~ '[\x01-\x1f\x7f]')),
                false)) AS are_plain,
            bool_or(s.fairness_key IS NOT NULL) AS take_turns,
            -- 1: some are ready; 2: some will be soon; 4: some later.
            bit_or(CASE
                WHEN num_nonnulls(s.scheduled_at, s.delay) = 0 OR t.scheduled_at <= now THEN 1
                WHEN t.scheduled_at < now + interval '2 seconds' THEN 2
                ELSE 4 END) AS times
        FROM pg_temp."{schema}_staged" s
        CROSS JOIN LATERAL (
            -- A delay that is refused below could lead out of all time here.
            SELECT coalesce(s.scheduled_at, CASE WHEN s.delay BETWEEN '0' AND '36600 days' THEN now + s.delay END, now) AS scheduled_at
        ) t
        GROUP BY s.queue, s.actor, s.notify, s.keep
    ) k;
    IF jobs IS DISTINCT FROM staged THEN
        -- Where the copy was committed by itself, the table is empty by now.
        PERFORM "{schema}".refuse(format('%s jobs are staged in this transaction, not %s', staged, jobs));
    END IF;
    IF NOT are_plain THEN
        PERFORM "{schema}".check_staged(now);
    END IF;

    -- In the hope that no id is taken, be it in the archive; where one is, as documents.
    BEGIN
        INSERT INTO "{schema}".jobs (
            id, created_at, priority, max_attempts, payload_version, scheduled_at, status, queue, actor, payload,
            schedule_to_close, start_to_close, retry_policy, trace_context, metadata, tags, fairness_key, cohort, keep)
        SELECT s.id, now, coalesce(s.priority, 0::smallint), coalesce(s.max_attempts, 20::smallint), coalesce(s.payload_version, 1),
            t.scheduled_at, CASE WHEN t.scheduled_at > now THEN 'scheduled' ELSE 'pending' END::"{schema}".job_status,
            coalesce(s.queue, 'default'), s.actor, s.payload, s.schedule_to_close, s.start_to_close,
            nullif(s.retry_policy, 'null'), s.trace_context, nullif(s.metadata, 'null'), nullif(s.tags, '{}'),
            s.fairness_key, coalesce(s.fairness_key, ''), nullif(s.keep, 'all')
        FROM pg_temp."{schema}_staged" s
        CROSS JOIN LATERAL (SELECT coalesce(s.scheduled_at, now + s.delay, now) AS scheduled_at) t;
        IF "{schema}".archived_staged(now) THEN
            RAISE unique_violation;
        END IF;
    EXCEPTION WHEN unique_violation THEN
        FOR documents, nths IN
            SELECT jsonb_agg(b.job ORDER BY b.id, b.nth), array_agg(b.nth ORDER BY b.id, b.nth)
            FROM (SELECT d.nth, d.id, d.job, (row_number() OVER (ORDER BY d.id, d.nth) - 1) / 10000 AS batch
                FROM "{schema}".staged_documents() d) b
            GROUP BY b.batch
            ORDER BY b.batch
        LOOP
            RETURN QUERY
                SELECT nths[e.place]::bigint, e.id, e.outcome, e.status
                FROM "{schema}".enqueue_many(documents) WITH ORDINALITY e(id, outcome, status, place)
                WHERE e.outcome <> 'created' OR e.status <> 'pending';
        END LOOP;
        RETURN;
    END;

    PERFORM "{schema}".wake(ready, due);
    IF "{schema}".event_level() = 'all' THEN
        INSERT INTO "{schema}".job_events (job_id, occurred_at, kind) SELECT s.id, now, 'enqueued' FROM pg_temp."{schema}_staged" s;
    END IF;
    IF NOT all_pending THEN
        RETURN QUERY
            SELECT s.nth::bigint, s.id, 'created'::text, 'scheduled'::text
            FROM pg_temp."{schema}_staged" s
            WHERE coalesce(s.scheduled_at, now + s.delay, now) > now;
    END IF;
END
$$;
