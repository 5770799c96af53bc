-- How jobs of the archive stand, without their payloads. Of a result that is kept no longer nothing is told.
-- Called by: Store::endings, for those that are not among the others. Indexes: jobs_archive_pkey, of every partition. Locks:
-- none.
-- $1 uuid[]: the jobs.
SELECT a.id, a.status::text, CASE WHEN a.result_expires_at <= "{schema}".clock() THEN NULL ELSE a.result END AS result, a.error
FROM "{schema}".jobs_archive a
WHERE a.id = ANY ($1)
ORDER BY a.id;
