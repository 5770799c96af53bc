-- Says when the first row of a sweep is due behind the place that `probe` names, and up to which time nothing lives before
-- it in the sweep's order (NULL where it has none). What a probe is says sweeps_due.
-- Called by: sweeps_due, Store::sweeps. Locks: none. Indexes: jobs_scheduled_idx, jobs_deadline_idx,
-- jobs_result_expiry_idx, jobs_finished_idx, job_events_occurred_at_idx, idempotency_keys_expires_at_idx, settings_pkey,
-- sweeps_pkey, restamp_pkey, those of the catalog pg_inherits; workers are few.
-- Rows are put into an order of time at times to come, so what is before now and before the first row stays empty but for
-- transactions that commit late.
CREATE OR REPLACE FUNCTION "{schema}".sweep_head(
    probe jsonb, OUT due_at timestamptz, OUT clear_to timestamptz, OUT batch integer, OUT problem text
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := "{schema}".clock();
    from_at timestamptz := '-infinity';
    from_id text;
    first_id uuid;
    keep interval;
    period_text text;
    batch_text text;
BEGIN
    IF probe ->> 'from' = 'key' THEN
        from_at := (probe ->> 'at')::timestamptz;
        from_id := nullif(probe ->> 'id', '');
    ELSIF probe ->> 'from' = 'last_note' THEN
        SELECT coalesce(s.reached_at, from_at), s.reached_id INTO from_at, from_id
        FROM "{schema}".sweeps s WHERE s.sweep = probe ->> 'sweep';
        from_at := coalesce(from_at, '-infinity');
    END IF;
    CASE probe ->> 'sweep'
        WHEN 'promote' THEN
            first_id := coalesce(from_id::uuid, '00000000-0000-0000-0000-000000000000');
            SELECT j.scheduled_at INTO due_at FROM "{schema}".jobs j
            WHERE j.status = 'scheduled' AND (j.scheduled_at, j.id) > (from_at, first_id)
            ORDER BY j.scheduled_at, j.id LIMIT 1;
            clear_to := least(due_at, now);
        WHEN 'deadlines' THEN
            first_id := coalesce(from_id::uuid, '00000000-0000-0000-0000-000000000000');
            SELECT j.schedule_to_close INTO due_at FROM "{schema}".jobs j
            WHERE j.schedule_to_close IS NOT NULL AND j.status IN ('scheduled', 'blocked', 'pending')
                AND (j.schedule_to_close, j.id) > (from_at, first_id)
                -- Jobs that were claimed leave dead entries ahead of now, up to their deadlines.
                AND j.schedule_to_close <= now + interval '2 seconds'
            ORDER BY j.schedule_to_close, j.id LIMIT 1;
            clear_to := least(due_at, now);
        WHEN 'results' THEN
            first_id := coalesce(from_id::uuid, '00000000-0000-0000-0000-000000000000');
            SELECT j.result_expires_at INTO due_at FROM "{schema}".jobs j
            WHERE j.result_expires_at IS NOT NULL AND j.result IS NOT NULL AND (j.result_expires_at, j.id) > (from_at, first_id)
            ORDER BY j.result_expires_at, j.id LIMIT 1;
            clear_to := least(due_at, now);
        WHEN 'events' THEN
            -- What the leader's process sets itself counts, whatever stands in the table.
            SELECT max(s.value #>> '{}') FILTER (WHERE s.name = 'event_retention_period'),
                max(s.value #>> '{}') FILTER (WHERE s.name = 'event_retention_batch_size'),
                max(format('setting %s in the table settings: %s', s.name, "{schema}".setting_problem(s.name, s.value)))
                    FILTER (WHERE "{schema}".setting_problem(s.name, s.value) IS NOT NULL)
            INTO period_text, batch_text, problem
            FROM "{schema}".settings s
            WHERE s.name = 'event_retention_period' AND probe ->> 'period' IS NULL
                OR s.name = 'event_retention_batch_size' AND probe ->> 'batch' IS NULL;
            IF problem IS NULL THEN
                batch := batch_text::numeric::integer;
                keep := coalesce((probe ->> 'period')::interval, period_text::interval, '7 days');
                SELECT e.occurred_at, e.occurred_at + keep INTO clear_to, due_at FROM "{schema}".job_events e
                WHERE (e.occurred_at, e.id) > (from_at, coalesce(from_id::bigint, -9223372036854775808))
                ORDER BY e.occurred_at, e.id LIMIT 1;
                clear_to := least(clear_to, now);
                IF keep = interval '0' THEN
                    due_at := NULL;
                END IF;
            END IF;
        WHEN 'idempotency_keys' THEN
            SELECT k.expires_at INTO due_at FROM "{schema}".idempotency_keys k
            WHERE k.expires_at >= from_at ORDER BY k.expires_at LIMIT 1;
            clear_to := least(due_at, now);
        WHEN 'archive' THEN
            first_id := coalesce(from_id::uuid, '00000000-0000-0000-0000-000000000000');
            SELECT j.prune_at INTO due_at FROM "{schema}".jobs j
            WHERE j.prune_at IS NOT NULL AND (j.prune_at, j.id) > (from_at, first_id)
            ORDER BY j.prune_at, j.id LIMIT 1;
            clear_to := least(due_at, now);
        WHEN 'archive_expiry' THEN
            SELECT s.value #>> '{}', 'setting archive_retention_period in the table settings: ' || "{schema}".setting_problem(s.name, s.value)
            INTO period_text, problem
            FROM "{schema}".settings s WHERE s.name = 'archive_retention_period';
            IF problem IS NULL THEN
                keep := coalesce(period_text::interval, '365 days');
            END IF;
            -- Room for this month and the next is made as soon as it lacks.
            SELECT CASE WHEN count(*) FILTER (WHERE m.is_whole AND m.month IN ("{schema}".archive_month(now),
                        "{schema}".archive_expiry("{schema}".archive_month(now), '0'))) < 2 THEN now
                    WHEN keep > interval '0' THEN min("{schema}".archive_expiry(m.month, keep)) END
            INTO due_at FROM "{schema}".archive_months() m;
        WHEN 'restamp' THEN
            -- A little later than it was asked for, so that whoever read the period before has committed.
            SELECT r.requested_at + interval '5 seconds' INTO due_at FROM "{schema}".restamp r WHERE r.only_row;
        WHEN 'mark_lost' THEN
            SELECT min(w.lease_expires_at) INTO due_at FROM "{schema}".workers w WHERE w.state = 'active';
        WHEN 'reclaim' THEN
            SELECT least(min(w.lease_expires_at), now) INTO due_at FROM "{schema}".workers w
            WHERE w.state = 'lost' AND w.reclaimed_at IS NULL
            HAVING count(*) > 0;
        WHEN 'workers' THEN
            SELECT min(w.lease_expires_at) + interval '1 hour' INTO due_at FROM "{schema}".workers w
            WHERE w.state = 'lost' AND w.reclaimed_at IS NOT NULL;
        ELSE
            PERFORM "{schema}".refuse(format('unknown sweep %s', coalesce(probe ->> 'sweep', 'null')));
    END CASE;
END
$$;
