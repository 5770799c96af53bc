-- The ids of a page of jobs, newest first, whatever their status or one that most jobs have.
-- Called by: Store::jobs. Indexes: jobs_pkey, backwards. Locks: none.
-- $1 text: status or null; $2 text: queue or null; $3 text: actor or null; $4 uuid: only ids below it, or
-- null; $5 bigint: the most rows. The page is bounded; the rows passed over depend on how rare the filter is.
SELECT j.id
FROM "{schema}".jobs j
WHERE j.id < coalesce($4, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    AND ($1 IS NULL OR j.status::text = $1)
    AND ($2 IS NULL OR j.queue = $2)
    AND ($3 IS NULL OR j.actor = $3)
ORDER BY j.id DESC
LIMIT $5;
