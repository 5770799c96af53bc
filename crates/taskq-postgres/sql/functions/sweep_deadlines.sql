-- Fails jobs whose deadline has passed before an attempt could start or be tried again, at most `max_rows` of those behind
-- the key `after_at`, `after_id`, the oldest deadline first. Returns how many, whether there may be more, how long until the
-- next deadline behind the last one if that is within 2 s, and the last one's key. A row that cannot be changed is passed over and counted
-- among the problems.
-- Called by: the leader. Locks: the leader's row FOR KEY SHARE once something is due, the jobs, SKIP LOCKED. Indexes: jobs_deadline_idx.
-- No probe looks further ahead than 2 s: jobs that were claimed leave dead entries there, up to their deadlines.
-- A job that runs is never taken from its worker: its outcome decides.
CREATE OR REPLACE FUNCTION "{schema}".sweep_deadlines(
    leader uuid, leader_epoch bigint, max_rows integer, after_at timestamptz DEFAULT NULL, after_id uuid DEFAULT NULL
) RETURNS TABLE (swept bigint, more boolean, due_in interval, reached_at timestamptz, reached_id uuid, problems bigint, problem text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    from_at timestamptz := coalesce(after_at, '-infinity');
    from_id uuid := coalesce(after_id, '00000000-0000-0000-0000-000000000000');
    next_at timestamptz;
    tids tid[];
    done record;
BEGIN
    PERFORM "{schema}".require_read_committed('sweep_deadlines');
    PERFORM "{schema}".check_max_rows(max_rows);
    PERFORM "{schema}".require_leader(leader, leader_epoch, false);
    SELECT j.schedule_to_close INTO next_at FROM "{schema}".jobs j
    WHERE j.schedule_to_close IS NOT NULL AND j.status IN ('scheduled', 'blocked', 'pending')
        AND (j.schedule_to_close, j.id) > (from_at, from_id) AND j.schedule_to_close <= "{schema}".clock() + interval '2 seconds'
    ORDER BY j.schedule_to_close, j.id LIMIT 1;
    IF coalesce(next_at > "{schema}".clock(), true) THEN
        RETURN QUERY SELECT 0::bigint, false, next_at - "{schema}".clock(), after_at, after_id, 0::bigint, NULL::text;
        RETURN;
    END IF;
    PERFORM "{schema}".require_leader(leader, leader_epoch, true);
    SELECT array_agg(d.tid), coalesce((array_agg(d.schedule_to_close ORDER BY d.schedule_to_close DESC, d.id DESC))[1], from_at),
        coalesce((array_agg(d.id ORDER BY d.schedule_to_close DESC, d.id DESC))[1], from_id)
    INTO tids, from_at, from_id
    FROM (
        SELECT j.ctid AS tid, j.schedule_to_close, j.id FROM "{schema}".jobs j
        WHERE j.schedule_to_close IS NOT NULL AND j.status IN ('scheduled', 'blocked', 'pending')
            AND (j.schedule_to_close, j.id) > (from_at, from_id) AND j.schedule_to_close <= "{schema}".clock()
        ORDER BY j.schedule_to_close, j.id
        LIMIT max_rows
        FOR NO KEY UPDATE OF j SKIP LOCKED
    ) d;
    SELECT r.swept, r.problems, r.problem INTO done
    FROM "{schema}".sweep_rows('deadlines', tids, "{schema}".clock_now()) r;
    SELECT j.schedule_to_close INTO next_at FROM "{schema}".jobs j
    WHERE j.schedule_to_close IS NOT NULL AND j.status IN ('scheduled', 'blocked', 'pending')
        AND (j.schedule_to_close, j.id) > (from_at, from_id) AND j.schedule_to_close <= "{schema}".clock() + interval '2 seconds'
    ORDER BY j.schedule_to_close, j.id LIMIT 1;
    RETURN QUERY SELECT done.swept, coalesce(cardinality(tids) = max_rows, false),
        CASE WHEN next_at IS NOT NULL THEN greatest(next_at - "{schema}".clock_now(), interval '0') END,
        CASE WHEN tids IS NULL THEN after_at ELSE from_at END, CASE WHEN tids IS NULL THEN after_id ELSE from_id END, done.problems, done.problem;
END
$$;
