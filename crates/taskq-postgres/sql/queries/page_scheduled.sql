-- The ids of a page of scheduled jobs, newest first, and whether all of them were looked at: at most 10,000.
-- Called by: Store::jobs, which reads page.sql when there are more: then they are not rare.
-- Indexes: jobs_scheduled_idx. Locks: none. Parameters as in page.sql; $1 is `scheduled`.
WITH found AS MATERIALIZED (
    SELECT j.id, j.queue, j.actor
    FROM "{schema}".jobs j
    WHERE j.status = 'scheduled'
    ORDER BY j.scheduled_at, j.id
    LIMIT 10001
)
SELECT ARRAY(
        SELECT f.id
        FROM found f
        WHERE f.id < coalesce($4, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
            AND ($2 IS NULL OR f.queue = $2)
            AND ($3 IS NULL OR f.actor = $3)
        ORDER BY f.id DESC
        LIMIT $5
    ) AS ids,
    (SELECT pg_catalog.count(*) FROM found) <= 10000 AS complete;
