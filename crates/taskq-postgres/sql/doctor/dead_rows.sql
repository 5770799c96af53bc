-- Tables whose dead rows gather: more than $2 of them and a fifth of the live ones, not vacuumed for the interval $3; or ten
-- times as many, more than the live ones, however often they are vacuumed. $1: the schema.
-- Called by: taskq doctor. Locks: none. The numbers are the server's estimates.
SELECT t.relname::text AS table_name, t.n_dead_tup AS dead, t.n_live_tup AS live,
    greatest(t.last_vacuum, t.last_autovacuum) AS last_vacuum
FROM pg_catalog.pg_stat_all_tables t
WHERE t.schemaname = $1 AND (
    (t.n_dead_tup > $2 AND t.n_dead_tup > t.n_live_tup / 5
        AND coalesce(greatest(t.last_vacuum, t.last_autovacuum), '-infinity') < pg_catalog.statement_timestamp() - $3)
    OR (t.n_dead_tup > $2 * 10 AND t.n_dead_tup > t.n_live_tup))
ORDER BY t.n_dead_tup DESC, t.relname;
