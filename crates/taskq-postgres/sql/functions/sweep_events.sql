-- Deletes the oldest events that are kept no longer, at most `max_rows` of those behind the key `after_at`, `after_id`.
-- Returns how many, whether there may be more, how long until the next behind the last one is due, and the last one's key.
-- `keep` is for how long they are kept; NULL reads the setting event_retention_period. Zero keeps them for ever.
-- Called by: the leader. Locks: the leader's row FOR KEY SHARE once something is due, the events. Indexes: job_events_occurred_at_idx.
-- The batch is settled before it is deleted, and each row is tested again, so that a second sweep of the same rows
-- deletes nothing.
CREATE OR REPLACE FUNCTION "{schema}".sweep_events(
    leader uuid, leader_epoch bigint, max_rows integer, after_at timestamptz DEFAULT NULL, after_id bigint DEFAULT NULL,
    keep interval DEFAULT NULL
) RETURNS TABLE (swept bigint, more boolean, due_in interval, reached_at timestamptz, reached_id bigint, problems bigint, problem text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    kept interval;
    horizon timestamptz;
    from_at timestamptz := coalesce(after_at, '-infinity');
    from_id bigint := coalesce(after_id, -9223372036854775808);
    next_at timestamptz;
    deleted bigint;
    seen bigint;
BEGIN
    PERFORM "{schema}".require_read_committed('sweep_events');
    PERFORM "{schema}".check_max_rows(max_rows);
    kept := coalesce(keep, "{schema}".interval_setting('event_retention_period', '7 days'));
    horizon := "{schema}".clock() - kept;
    IF kept < interval '0' THEN
        PERFORM "{schema}".refuse('keep is negative');
    END IF;
    PERFORM "{schema}".require_leader(leader, leader_epoch, false);
    SELECT e.occurred_at INTO next_at FROM "{schema}".job_events e
    WHERE (e.occurred_at, e.id) > (from_at, from_id) ORDER BY e.occurred_at, e.id LIMIT 1;
    IF kept = interval '0' OR coalesce(next_at > horizon, true) THEN
        RETURN QUERY SELECT 0::bigint, false,
            CASE WHEN kept > interval '0' AND next_at IS NOT NULL THEN greatest(next_at + kept - "{schema}".clock(), interval '0') END,
            after_at, after_id, 0::bigint, NULL::text;
        RETURN;
    END IF;
    PERFORM "{schema}".require_leader(leader, leader_epoch, true);
    WITH expired AS MATERIALIZED (
        SELECT e.ctid AS tid, e.occurred_at, e.id FROM "{schema}".job_events e
        WHERE e.occurred_at <= horizon AND (e.occurred_at, e.id) > (from_at, from_id)
        ORDER BY e.occurred_at, e.id
        LIMIT max_rows
    ), gone AS (
        DELETE FROM "{schema}".job_events e USING expired x
        WHERE e.ctid = x.tid AND e.occurred_at <= horizon
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM gone), count(*),
        coalesce((array_agg(x.occurred_at ORDER BY x.occurred_at DESC, x.id DESC))[1], from_at),
        coalesce((array_agg(x.id ORDER BY x.occurred_at DESC, x.id DESC))[1], from_id)
    INTO deleted, seen, from_at, from_id
    FROM expired x;
    SELECT e.occurred_at INTO next_at FROM "{schema}".job_events e
    WHERE (e.occurred_at, e.id) > (from_at, from_id) ORDER BY e.occurred_at, e.id LIMIT 1;
    RETURN QUERY SELECT deleted, seen = max_rows,
        CASE WHEN next_at IS NOT NULL THEN greatest(next_at + kept - "{schema}".clock_now(), interval '0') END,
        CASE WHEN seen = 0 THEN after_at ELSE from_at END, CASE WHEN seen = 0 THEN after_id ELSE from_id END, 0::bigint, NULL::text;
END
$$;
