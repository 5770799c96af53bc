-- Counts the rows that wait for a sweep behind the place that it had reached by its last note; counting stops at 10,001.
-- Called by: Store::sweeps, for operators. Locks: none. Indexes: jobs_scheduled_idx, jobs_running_idx, sweeps_pkey; workers
-- are few.
CREATE OR REPLACE FUNCTION "{schema}".sweep_backlog(sweep text) RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := "{schema}".clock();
    from_at timestamptz;
    found bigint;
BEGIN
    SELECT s.reached_at INTO from_at FROM "{schema}".sweeps s WHERE s.sweep = sweep_backlog.sweep;
    from_at := coalesce(from_at, '-infinity');
    CASE sweep
        WHEN 'promote' THEN
            SELECT count(*) INTO found FROM (
                SELECT FROM "{schema}".jobs j
                WHERE j.status = 'scheduled' AND j.scheduled_at >= from_at AND j.scheduled_at <= now
                ORDER BY j.scheduled_at, j.id LIMIT 10001
            ) r;
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
