-- Takes running jobs from lost workers, at most `max_rows`: back to be tried again, or to their end. Returns one row per
-- job that was looked at; `problem` is null where it was moved. A row that cannot be moved never holds up the others:
-- it is reported, and passed over when it stands in `skip`.
-- Called by: the leader, after mark_lost has committed. Locks: the leader's row FOR KEY SHARE, then the jobs and the
-- workers that are dealt with, SKIP LOCKED. Indexes: jobs_running_idx, jobs_pkey.
-- With `forgive`, the leases were lost by an outage of the database itself: no attempt is burnt.
CREATE OR REPLACE FUNCTION "{schema}".reclaim(
    leader uuid, leader_epoch bigint, max_rows integer, forgive boolean DEFAULT false, skip uuid[] DEFAULT '{}'
) RETURNS TABLE (id uuid, epoch bigint, status text, problem text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    tids tid[];
    emptied uuid[];
BEGIN
    PERFORM "{schema}".require_read_committed('reclaim');
    PERFORM "{schema}".check_max_rows(max_rows);
    PERFORM "{schema}".require_leader(leader, leader_epoch, true);
    SELECT array_agg(l.tid) INTO tids
    FROM (
        SELECT j.tid
        FROM (SELECT w.id FROM "{schema}".workers w WHERE w.state = 'lost' AND w.reclaimed_at IS NULL ORDER BY w.id) w
        CROSS JOIN LATERAL (
            SELECT r.ctid AS tid, r.locked_by_worker FROM "{schema}".jobs r
            WHERE r.locked_by_worker = w.id AND r.status = 'running' AND r.id <> ALL (coalesce(skip, '{}'))
            ORDER BY r.started_at
            LIMIT max_rows
            FOR NO KEY UPDATE OF r SKIP LOCKED
        ) j
        LIMIT max_rows
    ) l;
    IF tids IS NOT NULL THEN
        RETURN QUERY SELECT r.id, r.epoch, r.status, r.problem FROM "{schema}".reclaim_rows(tids, forgive) r;
    END IF;
    IF coalesce(cardinality(tids), 0) < max_rows THEN
        -- Nothing can come to run under a lost worker, so what is empty stays so and need not be looked at again.
        SELECT array_agg(e.id) INTO emptied
        FROM (
            SELECT w.id FROM "{schema}".workers w
            -- One probe a worker: as an anti join it could read all running rows for each of them.
            CROSS JOIN LATERAL (
                SELECT count(*) AS running
                FROM (
                    SELECT FROM "{schema}".jobs j WHERE j.locked_by_worker = w.id AND j.status = 'running'
                    ORDER BY j.started_at LIMIT 1
                ) j
            ) r
            WHERE w.state = 'lost' AND w.reclaimed_at IS NULL AND r.running = 0
            FOR NO KEY UPDATE OF w SKIP LOCKED
        ) e;
        UPDATE "{schema}".workers w SET reclaimed_at = "{schema}".clock_now() WHERE w.id = ANY (emptied);
    END IF;
END
$$;
