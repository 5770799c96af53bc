-- How many jobs have each status; every count looks at 10,001 rows at most.
-- Called by: Store::stats. Locks: none.
-- Indexes: jobs_ready_idx, jobs_scheduled_idx, jobs_running_idx, jobs_unsuccessful_idx; for successes
-- jobs_finished_idx, of which the newest 20,001 rows are looked at.
-- Nothing makes blocked jobs yet, and no index counts them.
SELECT 'scheduled' AS status, pg_catalog.count(*) AS found, false AS capped
FROM (
    SELECT FROM "{schema}".jobs j WHERE j.status = 'scheduled' ORDER BY j.scheduled_at, j.id LIMIT 10001
) c
UNION ALL
SELECT 'pending', pg_catalog.count(*), false
FROM (
    SELECT
    FROM "{schema}".jobs j
    WHERE j.status = 'pending'
    ORDER BY j.queue, j.actor, j.cohort, j.priority DESC, j.scheduled_at, j.id
    LIMIT 10001
) c
UNION ALL
SELECT 'running', pg_catalog.count(*), false
FROM (
    SELECT FROM "{schema}".jobs j WHERE j.status = 'running' ORDER BY j.locked_by_worker, j.started_at LIMIT 10001
) c
UNION ALL
SELECT 'succeeded', pg_catalog.count(*) FILTER (WHERE w.status::text = 'succeeded'), pg_catalog.count(*) > 20000
FROM (
    SELECT j.status
    FROM "{schema}".jobs j
    WHERE j.prune_at IS NOT NULL
    ORDER BY j.prune_at DESC, j.id DESC
    LIMIT 20001
) w
UNION ALL
SELECT s.status, c.found, false
FROM (VALUES ('failed'), ('cancelled'), ('crashed'), ('abandoned')) s(status)
CROSS JOIN LATERAL (
    SELECT pg_catalog.count(*) AS found
    FROM (
        SELECT
        FROM "{schema}".jobs j
        WHERE j.status = s.status::"{schema}".job_status
            AND j.status IN ('failed', 'cancelled', 'crashed', 'abandoned')
        ORDER BY j.status, j.id
        LIMIT 10001
    ) rows
) c;
