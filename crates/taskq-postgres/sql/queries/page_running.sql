-- The ids of a page of running jobs, newest first.
-- Called by: Store::jobs. Indexes: jobs_running_idx: there are never more than the fleet has slots. Locks: none.
-- Parameters as in page.sql; $1 is `running`.
WITH running AS MATERIALIZED (
    SELECT j.id, j.queue, j.actor
    FROM "{schema}".jobs j
    WHERE j.status = 'running'
    ORDER BY j.locked_by_worker, j.started_at
)
SELECT r.id
FROM running r
WHERE r.id < coalesce($4, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    AND ($2 IS NULL OR r.queue = $2)
    AND ($3 IS NULL OR r.actor = $3)
ORDER BY r.id DESC
LIMIT $5;
