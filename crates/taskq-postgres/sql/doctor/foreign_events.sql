-- Whether events carry ids of transactions that this server has not reached, as after a dump of another one was restored.
-- Called by: taskq doctor. Locks: none. Indexes: job_events_pkey.
SELECT (
    SELECT e.xid FROM "{schema}".job_events e ORDER BY e.xid DESC, e.id DESC LIMIT 1
) >= pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot()) AS found;
