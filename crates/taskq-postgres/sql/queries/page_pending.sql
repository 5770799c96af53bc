-- The ids of a page of ready jobs, newest first, and whether all that match were looked at: at most 10,000.
-- Called by: Store::jobs, which reads page.sql when there are more: then matches are not rare.
-- Indexes: jobs_ready_idx, of one queue if one is named. Locks: none.
-- Parameters as in page.sql; $1 is `pending`. The bound above every name is 256 bytes long.
WITH found AS MATERIALIZED (
    SELECT j.id
    FROM "{schema}".jobs j
    WHERE j.status = 'pending'
        AND j.queue >= coalesce($2, '')
        AND j.queue <= coalesce($2, pg_catalog.repeat(U&'\+10FFFF', 64))
        AND ($3 IS NULL OR j.actor = $3)
    ORDER BY j.queue, j.actor, j.cohort, j.priority DESC, j.scheduled_at, j.id
    LIMIT 10001
)
SELECT ARRAY(
        SELECT f.id
        FROM found f
        WHERE f.id < coalesce($4, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        ORDER BY f.id DESC
        LIMIT $5
    ) AS ids,
    (SELECT pg_catalog.count(*) FROM found) <= 10000 AS complete;
