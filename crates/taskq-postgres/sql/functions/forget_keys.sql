-- Deletes idempotency keys that have expired, at most `max_rows` of those that expired at `after_at` or later, the oldest
-- first. Returns how many, whether there may be more, how long until the next expires, and when the last one expired.
-- Called by: the leader. Locks: the leader's row FOR KEY SHARE once something is due, the keys, SKIP LOCKED: one that is being taken anew stays.
-- Indexes: idempotency_keys_expires_at_idx.
-- Keys that expire together were taken by one call, so they are few and may be looked at again.
CREATE OR REPLACE FUNCTION "{schema}".forget_keys(
    leader uuid, leader_epoch bigint, max_rows integer, after_at timestamptz DEFAULT NULL
) RETURNS TABLE (swept bigint, more boolean, due_in interval, reached_at timestamptz, reached_id uuid, problems bigint, problem text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    from_at timestamptz := coalesce(after_at, '-infinity');
    next_at timestamptz;
    tids tid[];
BEGIN
    PERFORM "{schema}".require_read_committed('forget_keys');
    PERFORM "{schema}".check_max_rows(max_rows);
    PERFORM "{schema}".require_leader(leader, leader_epoch, false);
    SELECT k.expires_at INTO next_at FROM "{schema}".idempotency_keys k
    WHERE k.expires_at >= from_at ORDER BY k.expires_at LIMIT 1;
    IF coalesce(next_at > "{schema}".clock(), true) THEN
        RETURN QUERY SELECT 0::bigint, false, next_at - "{schema}".clock(), after_at, NULL::uuid, 0::bigint, NULL::text;
        RETURN;
    END IF;
    PERFORM "{schema}".require_leader(leader, leader_epoch, true);
    SELECT array_agg(d.tid), coalesce(max(d.expires_at), from_at) INTO tids, from_at
    FROM (
        SELECT k.ctid AS tid, k.expires_at FROM "{schema}".idempotency_keys k
        WHERE k.expires_at >= from_at AND k.expires_at <= "{schema}".clock()
        ORDER BY k.expires_at
        LIMIT max_rows
        FOR UPDATE SKIP LOCKED
    ) d;
    DELETE FROM "{schema}".idempotency_keys k WHERE k.ctid = ANY (tids);
    SELECT k.expires_at INTO next_at FROM "{schema}".idempotency_keys k
    WHERE k.expires_at >= from_at ORDER BY k.expires_at LIMIT 1;
    RETURN QUERY SELECT coalesce(cardinality(tids), 0)::bigint, coalesce(cardinality(tids) = max_rows, false),
        CASE WHEN next_at IS NOT NULL THEN greatest(next_at - "{schema}".clock_now(), interval '0') END,
        CASE WHEN tids IS NULL THEN after_at ELSE from_at END, NULL::uuid, 0::bigint, NULL::text;
END
$$;
