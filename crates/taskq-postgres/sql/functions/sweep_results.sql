-- Takes away results that are kept no longer, at most `max_rows` of those behind the key `after_at`, `after_id`, the oldest
-- first. The stamp stays and says when the result went. Returns how many, whether there may be more, how long until the next
-- behind the last one expires, and the last one's key. A row that cannot be changed is passed over and counted among the
-- problems.
-- Called by: the leader. Locks: the leader's row FOR KEY SHARE once something is due, the jobs, SKIP LOCKED. Indexes: jobs_result_expiry_idx.
CREATE OR REPLACE FUNCTION "{schema}".sweep_results(
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
    PERFORM "{schema}".require_read_committed('sweep_results');
    PERFORM "{schema}".check_max_rows(max_rows);
    PERFORM "{schema}".require_leader(leader, leader_epoch, false);
    SELECT j.result_expires_at INTO next_at FROM "{schema}".jobs j
    WHERE j.result_expires_at IS NOT NULL AND j.result IS NOT NULL AND (j.result_expires_at, j.id) > (from_at, from_id)
    ORDER BY j.result_expires_at, j.id LIMIT 1;
    IF coalesce(next_at > "{schema}".clock(), true) THEN
        RETURN QUERY SELECT 0::bigint, false, next_at - "{schema}".clock(), after_at, after_id, 0::bigint, NULL::text;
        RETURN;
    END IF;
    PERFORM "{schema}".require_leader(leader, leader_epoch, true);
    SELECT array_agg(d.tid), coalesce((array_agg(d.result_expires_at ORDER BY d.result_expires_at DESC, d.id DESC))[1], from_at),
        coalesce((array_agg(d.id ORDER BY d.result_expires_at DESC, d.id DESC))[1], from_id)
    INTO tids, from_at, from_id
    FROM (
        SELECT j.ctid AS tid, j.result_expires_at, j.id FROM "{schema}".jobs j
        WHERE j.result_expires_at IS NOT NULL AND j.result IS NOT NULL
            AND (j.result_expires_at, j.id) > (from_at, from_id) AND j.result_expires_at <= "{schema}".clock()
        ORDER BY j.result_expires_at, j.id
        LIMIT max_rows
        FOR NO KEY UPDATE OF j SKIP LOCKED
    ) d;
    SELECT r.swept, r.problems, r.problem INTO done
    FROM "{schema}".sweep_rows('results', tids, "{schema}".clock_now()) r;
    SELECT j.result_expires_at INTO next_at FROM "{schema}".jobs j
    WHERE j.result_expires_at IS NOT NULL AND j.result IS NOT NULL AND (j.result_expires_at, j.id) > (from_at, from_id)
    ORDER BY j.result_expires_at, j.id LIMIT 1;
    RETURN QUERY SELECT done.swept, coalesce(cardinality(tids) = max_rows, false),
        CASE WHEN next_at IS NOT NULL THEN greatest(next_at - "{schema}".clock_now(), interval '0') END,
        CASE WHEN tids IS NULL THEN after_at ELSE from_at END, CASE WHEN tids IS NULL THEN after_id ELSE from_id END, done.problems, done.problem;
END
$$;
