-- Says what the leader's sweeps have to do: how long until a job is due (zero: now; NULL: none is scheduled), and whether
-- a worker's lease has ended or a lost worker still has a row to look at. One probe for all idle sweeps.
-- Called by: the leader, when it wakes. Locks: none. Indexes: jobs_scheduled_idx; workers are few. Writes nothing.
CREATE OR REPLACE FUNCTION "{schema}".sweeps_due(leader uuid, leader_epoch bigint)
RETURNS TABLE (next_due_in interval, lease_ended boolean, lost boolean, forgettable boolean)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    next_at timestamptz;
BEGIN
    PERFORM "{schema}".require_leader(leader, leader_epoch, false);
    SELECT j.scheduled_at INTO next_at FROM "{schema}".jobs j
    WHERE j.status = 'scheduled' ORDER BY j.scheduled_at, j.id LIMIT 1;
    RETURN QUERY
        SELECT CASE WHEN next_at IS NOT NULL THEN greatest(next_at - "{schema}".clock(), interval '0') END,
            coalesce(bool_or(w.state = 'active' AND w.lease_expires_at <= "{schema}".clock()), false),
            coalesce(bool_or(w.state = 'lost' AND (
                SELECT count(*) FROM (
                    SELECT FROM "{schema}".jobs j WHERE j.locked_by_worker = w.id AND j.status = 'running'
                    ORDER BY j.started_at LIMIT 1
                ) j) > 0), false),
            coalesce(bool_or(w.state = 'lost' AND w.lease_expires_at < "{schema}".clock() - interval '1 hour'), false)
        FROM "{schema}".workers w;
END
$$;
