-- Ready jobs that no live worker serves, by queue and actor; at most 1,000 lines of the first 10,000 lanes.
-- Called by: Store::stats. Locks: none.
-- Indexes: jobs_ready_idx: lanes by a loose scan, one probe each; counts stop at 10,001.
WITH RECURSIVE lanes AS (
    (
        SELECT j.queue, j.actor, 1 AS nth
        FROM "{schema}".jobs j
        WHERE j.status = 'pending'
        ORDER BY j.queue, j.actor
        LIMIT 1
    )
    UNION ALL
    SELECT n.queue, n.actor, l.nth + 1
    FROM lanes l
    CROSS JOIN LATERAL (
        SELECT j.queue, j.actor
        FROM "{schema}".jobs j
        WHERE j.status = 'pending' AND (j.queue, j.actor) > (l.queue, l.actor)
        ORDER BY j.queue, j.actor
        LIMIT 1
    ) n
    WHERE l.nth < 10000
)
SELECT l.queue, l.actor, c.found
FROM (
    SELECT u.queue, u.actor
    FROM lanes u
    WHERE NOT EXISTS (
        SELECT
        FROM "{schema}".workers w
        WHERE w.state = 'active' AND w.lease_expires_at > "{schema}".clock()
            AND u.queue = ANY (w.queues) AND u.actor = ANY (w.actors)
    )
    ORDER BY u.nth
    LIMIT 1000
) l
CROSS JOIN LATERAL (
    SELECT pg_catalog.count(*) AS found
    FROM (
        SELECT
        FROM "{schema}".jobs j
        WHERE j.status = 'pending' AND j.queue = l.queue AND j.actor = l.actor
        ORDER BY j.queue, j.actor, j.cohort, j.priority DESC, j.scheduled_at, j.id
        LIMIT 10001
    ) ready
) c
ORDER BY l.queue COLLATE "C", l.actor COLLATE "C";
