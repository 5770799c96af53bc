-- Makes due jobs ready, oldest first, at most `max_rows`. Returns how many, and how long until the next is due:
-- zero when more are due already, NULL when nothing is scheduled.
-- Called by: the leader. Locks: the leader's row FOR KEY SHARE once something is due, then the jobs, SKIP
-- LOCKED. Indexes: jobs_scheduled_idx. Writes nothing when nothing is due.
CREATE OR REPLACE FUNCTION "{schema}".promote(leader uuid, leader_epoch bigint, max_rows integer)
RETURNS TABLE (jobs bigint, next_due_in interval)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    next_at timestamptz;
    tids tid[];
    ready text[];
BEGIN
    PERFORM "{schema}".require_read_committed('promote');
    PERFORM "{schema}".check_max_rows(max_rows);
    PERFORM "{schema}".require_leader(leader, leader_epoch, false);
    SELECT j.scheduled_at INTO next_at FROM "{schema}".jobs j
    WHERE j.status = 'scheduled' ORDER BY j.scheduled_at, j.id LIMIT 1;
    IF next_at <= "{schema}".clock() THEN
        PERFORM "{schema}".require_leader(leader, leader_epoch, true);
        SELECT array_agg(d.tid), array_agg(DISTINCT d.queue) INTO tids, ready
        FROM (
            SELECT j.ctid AS tid, j.queue FROM "{schema}".jobs j
            WHERE j.status = 'scheduled' AND j.scheduled_at <= "{schema}".clock()
            ORDER BY j.scheduled_at, j.id
            LIMIT max_rows
            FOR NO KEY UPDATE OF j SKIP LOCKED
        ) d;
        UPDATE "{schema}".jobs j SET status = 'pending' WHERE j.ctid = ANY (tids);
        PERFORM "{schema}".wake(ready);
        SELECT j.scheduled_at INTO next_at FROM "{schema}".jobs j
        WHERE j.status = 'scheduled' ORDER BY j.scheduled_at, j.id LIMIT 1;
    END IF;
    RETURN QUERY SELECT coalesce(cardinality(tids), 0)::bigint,
        CASE WHEN next_at IS NOT NULL THEN greatest(next_at - "{schema}".clock_now(), interval '0') END;
END
$$;
