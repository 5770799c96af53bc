-- Prepared transactions of this database that have waited for longer than $1, oldest first.
-- Called by: taskq doctor. Locks: none.
SELECT p.gid, p.owner::text AS owner, pg_catalog.statement_timestamp() - p.prepared AS waited
FROM pg_catalog.pg_prepared_xacts p
WHERE p.database = pg_catalog.current_database() AND p.prepared < pg_catalog.statement_timestamp() - $1
ORDER BY p.prepared, p.gid
LIMIT 10;
