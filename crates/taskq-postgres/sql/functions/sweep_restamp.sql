-- Stamps finished jobs anew after a hot period has changed, at most `max_rows` looked at, in the order of their stamps.
-- Returns how many stamps were changed and whether there may be more; how far it is stands in the table restamp, whose row
-- goes at the end.
-- Called by: the leader. Locks: the leader's row FOR KEY SHARE, the row of restamp, the jobs, SKIP LOCKED: who holds one is
-- about to archive it or to retry it. Indexes: restamp_pkey, jobs_finished_idx, jobs_pkey.
-- A stamp that moves on is met once more, and is right by then.
CREATE OR REPLACE FUNCTION "{schema}".sweep_restamp(leader uuid, leader_epoch bigint, max_rows integer)
RETURNS TABLE (swept bigint, more boolean, due_in interval, reached_at timestamptz, reached_id uuid, problems bigint, problem text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    from_at timestamptz;
    from_id uuid;
    looked_at bigint;
    tids tid[];
    stamps timestamptz[];
BEGIN
    PERFORM "{schema}".require_read_committed('sweep_restamp');
    PERFORM "{schema}".check_max_rows(max_rows);
    PERFORM "{schema}".require_leader(leader, leader_epoch, true);
    SELECT coalesce(r.reached_at, '-infinity'), coalesce(r.reached_id, '00000000-0000-0000-0000-000000000000')
    INTO from_at, from_id FROM "{schema}".restamp r WHERE r.only_row FOR UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 0::bigint, false, NULL::interval, NULL::timestamptz, NULL::uuid, 0::bigint, NULL::text;
        RETURN;
    END IF;
    SELECT count(*), (array_agg(d.prune_at ORDER BY d.prune_at DESC, d.id DESC))[1], (array_agg(d.id ORDER BY d.prune_at DESC, d.id DESC))[1],
        array_agg(d.tid) FILTER (WHERE d.stamp <> d.prune_at), array_agg(d.stamp) FILTER (WHERE d.stamp <> d.prune_at)
    INTO looked_at, from_at, from_id, tids, stamps
    FROM (
        SELECT j.tid, j.prune_at, j.id, "{schema}".hot_until(j.finished_at, j.status::text, j.actor) AS stamp
        FROM (
            SELECT j.ctid AS tid, j.prune_at, j.id, j.finished_at, j.status, j.actor FROM "{schema}".jobs j
            WHERE j.prune_at IS NOT NULL AND (j.prune_at, j.id) > (from_at, from_id)
            ORDER BY j.prune_at, j.id
            LIMIT max_rows
            FOR NO KEY UPDATE OF j SKIP LOCKED
        ) j
        -- Else each stamp would be computed wherever it is named.
        OFFSET 0
    ) d;
    UPDATE "{schema}".jobs j SET prune_at = u.stamp FROM unnest(tids, stamps) u(tid, stamp) WHERE j.ctid = u.tid;
    IF looked_at < max_rows THEN
        DELETE FROM "{schema}".restamp r WHERE r.only_row;
    ELSE
        UPDATE "{schema}".restamp r SET reached_at = from_at, reached_id = from_id WHERE r.only_row;
    END IF;
    RETURN QUERY SELECT coalesce(cardinality(tids), 0)::bigint, looked_at = max_rows, NULL::interval, NULL::timestamptz, NULL::uuid,
        0::bigint, NULL::text;
END
$$;
