-- The ids of a page of archived jobs, newest first; the newest 100,000 behind $4 are looked at.
-- Called by: Store::jobs, unless it asks for a status that no archived job has. Locks: none.
-- Indexes: jobs_archive_pkey of every partition, backwards and merged. Parameters as in page.sql.
SELECT f.id
FROM (
    SELECT a.id, a.status, a.queue, a.actor
    FROM "{schema}".jobs_archive a
    WHERE a.id < coalesce($4, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    ORDER BY a.id DESC
    LIMIT 100000
) f
WHERE ($1 IS NULL OR f.status::text = $1)
    AND ($2 IS NULL OR f.queue = $2)
    AND ($3 IS NULL OR f.actor = $3)
ORDER BY f.id DESC
LIMIT $5;
