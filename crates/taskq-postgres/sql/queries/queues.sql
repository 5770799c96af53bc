-- The queues that have ready, scheduled or running jobs, settings or live workers.
-- Called by: Store::queues. Locks: none.
-- Indexes: jobs_ready_idx (lanes by a loose scan, one probe each; counts stop at 10,001), jobs_scheduled_idx
-- and jobs_running_idx (the first 10,001 rows of all queues together; beyond them counts are capped).
WITH RECURSIVE lanes AS (
    (
        SELECT j.queue, j.actor, j.cohort, 1 AS nth
        FROM "{schema}".jobs j
        WHERE j.status = 'pending'
        ORDER BY j.queue, j.actor, j.cohort
        LIMIT 1
    )
    UNION ALL
    SELECT n.queue, n.actor, n.cohort, l.nth + 1
    FROM lanes l
    CROSS JOIN LATERAL (
        SELECT j.queue, j.actor, j.cohort
        FROM "{schema}".jobs j
        WHERE j.status = 'pending' AND (j.queue, j.actor, j.cohort) > (l.queue, l.actor, l.cohort)
        ORDER BY j.queue, j.actor, j.cohort
        LIMIT 1
    ) n
    WHERE l.nth < 10000
), heads AS (
    SELECT DISTINCT ON (l.queue) l.queue, h.scheduled_at
    FROM lanes l
    CROSS JOIN LATERAL (
        SELECT j.priority, j.scheduled_at, j.id
        FROM "{schema}".jobs j
        WHERE j.status = 'pending' AND j.queue = l.queue AND j.actor = l.actor AND j.cohort = l.cohort
        ORDER BY j.priority DESC, j.scheduled_at, j.id
        LIMIT 1
    ) h
    ORDER BY l.queue, h.priority DESC, h.scheduled_at, h.id
), pending AS (
    SELECT h.queue, h.scheduled_at AS head_at, c.found
    FROM heads h
    CROSS JOIN LATERAL (
        SELECT pg_catalog.count(*) AS found
        FROM (
            SELECT
            FROM "{schema}".jobs j
            WHERE j.status = 'pending' AND j.queue = h.queue
            ORDER BY j.queue, j.actor, j.cohort, j.priority DESC, j.scheduled_at, j.id
            LIMIT 10001
        ) ready
    ) c
), scheduled AS (
    SELECT w.queue, pg_catalog.count(*) AS found
    FROM (
        SELECT j.queue
        FROM "{schema}".jobs j
        WHERE j.status = 'scheduled'
        ORDER BY j.scheduled_at, j.id
        LIMIT 10001
    ) w
    GROUP BY w.queue
), running AS (
    SELECT w.queue, pg_catalog.count(*) AS found
    FROM (
        SELECT j.queue
        FROM "{schema}".jobs j
        WHERE j.status = 'running'
        ORDER BY j.locked_by_worker, j.started_at
        LIMIT 10001
    ) w
    GROUP BY w.queue
), served AS (
    SELECT q.queue, pg_catalog.count(*) AS workers
    FROM "{schema}".workers w
    CROSS JOIN LATERAL pg_catalog.unnest(w.queues) q(queue)
    WHERE w.state = 'active' AND w.lease_expires_at > "{schema}".clock()
    GROUP BY q.queue
), names AS (
    SELECT p.queue FROM pending p
    UNION SELECT s.queue FROM scheduled s
    UNION SELECT r.queue FROM running r
    UNION SELECT v.queue FROM served v
    UNION SELECT q.queue FROM "{schema}".queues q
)
SELECT n.queue,
    coalesce(q.mode, 'strict_fifo') AS mode,
    coalesce(s.found, 0) AS scheduled,
    (SELECT coalesce(pg_catalog.sum(t.found), 0) > 10000 FROM scheduled t) AS scheduled_capped,
    coalesce(p.found, 0) AS pending,
    coalesce(r.found, 0) AS running,
    (SELECT coalesce(pg_catalog.sum(t.found), 0) > 10000 FROM running t) AS running_capped,
    greatest("{schema}".clock() - p.head_at, interval '0') AS oldest_pending,
    coalesce(v.workers, 0) AS workers,
    q.paused_at IS NOT NULL AS paused
FROM names n
LEFT JOIN pending p ON p.queue = n.queue
LEFT JOIN scheduled s ON s.queue = n.queue
LEFT JOIN running r ON r.queue = n.queue
LEFT JOIN served v ON v.queue = n.queue
LEFT JOIN "{schema}".queues q ON q.queue = n.queue
ORDER BY n.queue COLLATE "C";
