-- Transactions of this database that have been open for longer than $1 and hold a snapshot or a transaction id, oldest first.
-- Called by: taskq doctor. Locks: none. Of other roles' sessions only a member of pg_read_all_stats sees anything.
SELECT a.pid, a.usename::text AS role, a.application_name, a.state, a.xact_start,
    pg_catalog.statement_timestamp() - a.xact_start AS open_for
FROM pg_catalog.pg_stat_activity a
WHERE a.datname = pg_catalog.current_database() AND a.pid <> pg_catalog.pg_backend_pid()
    AND a.backend_type IN ('client backend', 'parallel worker', 'background worker')
    AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
    AND a.xact_start < pg_catalog.statement_timestamp() - $1
ORDER BY a.xact_start, a.pid
LIMIT 10;
