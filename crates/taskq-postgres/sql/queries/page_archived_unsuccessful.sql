-- The ids of a page of failed, cancelled, crashed or abandoned jobs of the archive, newest first; the newest 100,000 of that
-- status behind $4 are looked at.
-- Called by: Store::jobs. Locks: none. Indexes: jobs_archive_unsuccessful_idx of every partition, backwards and merged.
-- Parameters as in page.sql; $1 is one of the four. The list proves the index's predicate in a generic plan.
SELECT f.id
FROM (
    SELECT a.id, a.queue, a.actor
    FROM "{schema}".jobs_archive a
    WHERE a.status = $1::"{schema}".job_status
        AND a.status IN ('failed', 'cancelled', 'crashed', 'abandoned')
        AND a.id < coalesce($4, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    ORDER BY a.status DESC, a.id DESC
    LIMIT 100000
) f
WHERE ($2 IS NULL OR f.queue = $2)
    AND ($3 IS NULL OR f.actor = $3)
ORDER BY f.id DESC
LIMIT $5;
