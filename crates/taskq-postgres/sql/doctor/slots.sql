-- Replication slots that nobody reads and that keep dead rows, or more than $1 bytes of the write-ahead log.
-- Called by: taskq doctor. Locks: none.
SELECT s.slot_name::text AS slot, s.xmin IS NOT NULL AS keeps_rows, s.kept
FROM (
    SELECT r.slot_name, r.xmin, r.active, coalesce(pg_catalog.pg_wal_lsn_diff(
        CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_lsn() END,
        r.restart_lsn), 0)::bigint AS kept
    FROM pg_catalog.pg_replication_slots r
) s
WHERE NOT s.active AND (s.xmin IS NOT NULL OR s.kept > $1)
ORDER BY s.slot_name
LIMIT 10;
