-- What a session that sets nothing gets, and what the server can do at all.
-- Called by: taskq doctor. Locks: none.
SELECT pg_catalog.current_setting('default_transaction_isolation') AS isolation,
    pg_catalog.current_setting('default_transaction_read_only')::boolean AS read_only,
    pg_catalog.current_setting('autovacuum')::boolean AS autovacuum,
    pg_catalog.current_setting('track_counts')::boolean AS track_counts,
    current_user::text AS role, pg_catalog.current_database()::text AS database,
    pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_all;
