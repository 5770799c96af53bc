-- Worker sessions, oldest first, and how many jobs each runs; at most 1,000 of them. $1: live ones only.
-- Called by: Store::stats, Store::workers. Locks: none.
-- Indexes: workers_pkey (the table is small), jobs_running_idx (one probe a worker, at most 10,001 rows).
SELECT w.id, w.state = 'active' AND w.lease_expires_at > "{schema}".clock() AS alive, w.queues, w.actors, w.started_at,
    w.lease_expires_at, greatest(w.lease_expires_at - "{schema}".clock(), interval '0') AS lease_left, r.found
FROM "{schema}".workers w
CROSS JOIN LATERAL (
    SELECT pg_catalog.count(*) AS found
    FROM (
        SELECT
        FROM "{schema}".jobs j
        WHERE j.status = 'running' AND j.locked_by_worker = w.id
        ORDER BY j.locked_by_worker, j.started_at
        LIMIT 10001
    ) rows
) r
WHERE NOT $1 OR w.state = 'active' AND w.lease_expires_at > "{schema}".clock()
ORDER BY w.started_at, w.id
LIMIT 1000;
