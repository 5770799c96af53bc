-- Counts the rows that wait for a sweep behind the place that it had reached by its last note; counting stops at 10,001.
-- Called by: Store::sweeps, for operators. Locks: none. Indexes: as sweep_head, jobs_running_idx,
-- leader_pkey.
CREATE OR REPLACE FUNCTION "{schema}".sweep_backlog(sweep text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := "{schema}".clock();
    from_at timestamptz;
    keep interval;
    found bigint := 0;
BEGIN
    SELECT s.reached_at, CASE WHEN s.epoch = l.epoch THEN (s.overrides ->> 'event_retention_period')::interval END
    INTO from_at, keep
    FROM "{schema}".sweeps s, "{schema}".leader l WHERE s.sweep = sweep_backlog.sweep AND l.only_row;
    from_at := coalesce(from_at, '-infinity');
    CASE sweep
        WHEN 'promote' THEN
            SELECT count(*) INTO found FROM (
                SELECT FROM "{schema}".jobs j
                WHERE j.status = 'scheduled' AND j.scheduled_at >= from_at AND j.scheduled_at <= now
                ORDER BY j.scheduled_at, j.id LIMIT 10001
            ) r;
        WHEN 'deadlines' THEN
            SELECT count(*) INTO found FROM (
                SELECT FROM "{schema}".jobs j
                WHERE j.schedule_to_close IS NOT NULL AND j.status IN ('scheduled', 'blocked', 'pending')
                    AND j.schedule_to_close >= from_at AND j.schedule_to_close <= now
                ORDER BY j.schedule_to_close, j.id LIMIT 10001
            ) r;
        WHEN 'results' THEN
            SELECT count(*) INTO found FROM (
                SELECT FROM "{schema}".jobs j
                WHERE j.result_expires_at IS NOT NULL AND j.result IS NOT NULL
                    AND j.result_expires_at >= from_at AND j.result_expires_at <= now
                ORDER BY j.result_expires_at, j.id LIMIT 10001
            ) r;
        WHEN 'events' THEN
            IF keep IS NULL AND NOT EXISTS (
                SELECT FROM "{schema}".settings s
                WHERE s.name = 'event_retention_period' AND "{schema}".setting_problem(s.name, s.value) IS NOT NULL
            ) THEN
                keep := "{schema}".interval_setting('event_retention_period', '7 days');
            END IF;
            IF keep > interval '0' THEN
                SELECT count(*) INTO found FROM (
                    SELECT FROM "{schema}".job_events e WHERE e.occurred_at >= from_at AND e.occurred_at <= now - keep
                    ORDER BY e.occurred_at, e.id LIMIT 10001
                ) r;
            END IF;
        WHEN 'idempotency_keys' THEN
            SELECT count(*) INTO found FROM (
                SELECT FROM "{schema}".idempotency_keys k WHERE k.expires_at >= from_at AND k.expires_at <= now
                ORDER BY k.expires_at LIMIT 10001
            ) r;
        WHEN 'archive' THEN
            SELECT count(*) INTO found FROM (
                SELECT FROM "{schema}".jobs j WHERE j.prune_at IS NOT NULL AND j.prune_at >= from_at AND j.prune_at <= now
                ORDER BY j.prune_at, j.id LIMIT 10001
            ) r;
        WHEN 'archive_expiry' THEN
            IF NOT EXISTS (
                SELECT FROM "{schema}".settings s
                WHERE s.name = 'archive_retention_period' AND "{schema}".setting_problem(s.name, s.value) IS NOT NULL
            ) THEN
                keep := "{schema}".interval_setting('archive_retention_period', '365 days');
                SELECT count(*) INTO found FROM "{schema}".archive_months() m
                WHERE keep > interval '0' AND "{schema}".archive_expiry(m.month, keep) <= now;
            END IF;
        WHEN 'restamp' THEN
            SELECT count(*) INTO found FROM (
                SELECT FROM "{schema}".restamp r, "{schema}".jobs j
                WHERE r.only_row AND j.prune_at IS NOT NULL AND j.prune_at >= coalesce(r.reached_at, '-infinity') LIMIT 10001
            ) f;
        WHEN 'mark_lost' THEN
            SELECT count(*) INTO found FROM "{schema}".workers w WHERE w.state = 'active' AND w.lease_expires_at <= now;
        WHEN 'reclaim' THEN
            SELECT count(*) INTO found FROM (
                SELECT FROM (SELECT w.id FROM "{schema}".workers w WHERE w.state = 'lost' AND w.reclaimed_at IS NULL ORDER BY w.id) w
                CROSS JOIN LATERAL (
                    SELECT FROM "{schema}".jobs j WHERE j.locked_by_worker = w.id AND j.status = 'running'
                    ORDER BY j.started_at LIMIT 10001
                ) j
                LIMIT 10001
            ) r;
        WHEN 'workers' THEN
            SELECT count(*) INTO found FROM "{schema}".workers w
            WHERE w.state = 'lost' AND w.reclaimed_at IS NOT NULL AND w.lease_expires_at <= now - interval '1 hour';
        ELSE
            PERFORM "{schema}".refuse(format('unknown sweep %s', coalesce(sweep, 'null')));
    END CASE;
    RETURN found;
END
$$;
