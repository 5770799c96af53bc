-- How jobs stand, without their payloads.
-- Called by: Store::endings. Indexes: jobs_pkey. Locks: none.
-- $1 uuid[]: the jobs.
SELECT j.id, j.status::text, j.result, j.error
FROM "{schema}".jobs j
WHERE j.id = ANY ($1)
ORDER BY j.id;
