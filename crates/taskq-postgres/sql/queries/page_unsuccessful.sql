-- The ids of a page of failed, cancelled, crashed or abandoned jobs, newest first.
-- Called by: Store::jobs. Indexes: jobs_unsuccessful_idx, backwards. Locks: none.
-- Parameters as in page.sql; $1 is one of the four. The list proves the index's predicate in a generic plan.
SELECT j.id
FROM "{schema}".jobs j
WHERE j.status = $1::"{schema}".job_status
    AND j.status IN ('failed', 'cancelled', 'crashed', 'abandoned')
    AND j.id < coalesce($4, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    AND ($2 IS NULL OR j.queue = $2)
    AND ($3 IS NULL OR j.actor = $3)
ORDER BY j.status DESC, j.id DESC
LIMIT $5;
