-- Deletes lost workers that hold no job any more and have been lost for an hour, at most `max_rows`.
-- Called by: the leader. Locks: the leader's row FOR KEY SHARE, the workers' rows, SKIP LOCKED. Indexes:
-- jobs_running_idx.
CREATE OR REPLACE FUNCTION "{schema}".forget_workers(leader uuid, leader_epoch bigint, max_rows integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    ids uuid[];
BEGIN
    PERFORM "{schema}".require_read_committed('forget_workers');
    PERFORM "{schema}".check_max_rows(max_rows);
    PERFORM "{schema}".require_leader(leader, leader_epoch, true);
    SELECT array_agg(l.id) INTO ids
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
        WHERE w.state = 'lost' AND w.lease_expires_at < "{schema}".clock() - interval '1 hour' AND r.running = 0
        ORDER BY w.id
        LIMIT max_rows
        FOR UPDATE OF w SKIP LOCKED
    ) l;
    DELETE FROM "{schema}".workers w WHERE w.id = ANY (ids);
    RETURN coalesce(cardinality(ids), 0);
END
$$;
