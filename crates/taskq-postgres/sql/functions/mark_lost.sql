-- Declares workers lost whose lease has ended, at most `max_rows`, by the end of their lease. Returns how many, and whether
-- there may be more; they have no place to go on from.
-- Called by: the leader, in a transaction of its own, before it reclaims. Locks: the leader's row FOR KEY SHARE, the
-- workers' rows FOR UPDATE SKIP LOCKED. Indexes: none; workers are few.
-- A claim holds its worker's row FOR KEY SHARE while it takes jobs. So either the claim commits first and its jobs are
-- seen by the reclaim that follows, or it meets the state `lost` and takes nothing. A row that is locked is left for
-- the next round. Once this has committed, no job can come to run under such a worker.
CREATE OR REPLACE FUNCTION "{schema}".mark_lost(leader uuid, leader_epoch bigint, max_rows integer)
RETURNS TABLE (swept bigint, more boolean, due_in interval, reached_at timestamptz, reached_id uuid, problems bigint, problem text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    ids uuid[];
BEGIN
    PERFORM "{schema}".require_read_committed('mark_lost');
    PERFORM "{schema}".check_max_rows(max_rows);
    PERFORM "{schema}".require_leader(leader, leader_epoch, true);
    SELECT array_agg(l.id) INTO ids
    FROM (
        SELECT w.id FROM "{schema}".workers w
        WHERE w.state = 'active' AND w.lease_expires_at <= "{schema}".clock()
        ORDER BY w.lease_expires_at, w.id
        LIMIT max_rows
        FOR UPDATE SKIP LOCKED
    ) l;
    UPDATE "{schema}".workers w SET state = 'lost' WHERE w.id = ANY (ids);
    RETURN QUERY SELECT coalesce(cardinality(ids), 0)::bigint, coalesce(cardinality(ids) = max_rows, false), NULL::interval,
        NULL::timestamptz, NULL::uuid, 0::bigint, NULL::text;
END
$$;
