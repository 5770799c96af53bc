-- Deletes lost workers from which every job has been taken and whose lease ended an hour ago, at most `max_rows`, by the
-- end of their lease. Returns how many, and whether there may be more; they have no place to go on from.
-- Called by: the leader. Locks: the leader's row FOR KEY SHARE, the workers' rows, SKIP LOCKED. Indexes: none; workers
-- are few.
CREATE OR REPLACE FUNCTION "{schema}".forget_workers(leader uuid, leader_epoch bigint, max_rows integer)
RETURNS TABLE (swept bigint, more boolean, due_in interval, reached_at timestamptz, reached_id uuid, problems bigint, problem text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
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
        WHERE w.state = 'lost' AND w.reclaimed_at IS NOT NULL AND w.lease_expires_at <= "{schema}".clock() - interval '1 hour'
        ORDER BY w.lease_expires_at, w.id
        LIMIT max_rows
        FOR UPDATE SKIP LOCKED
    ) l;
    DELETE FROM "{schema}".workers w WHERE w.id = ANY (ids);
    RETURN QUERY SELECT coalesce(cardinality(ids), 0)::bigint, coalesce(cardinality(ids) = max_rows, false), NULL::interval,
        NULL::timestamptz, NULL::uuid, 0::bigint, NULL::text;
END
$$;
