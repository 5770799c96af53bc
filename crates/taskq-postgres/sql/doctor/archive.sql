-- What stands in the archive's way: tables that are named as partitions and are none, and finished jobs that the sweep has
-- passed over, of the first thousand that are due. $1: the schema.
-- Called by: taskq doctor. Locks: none. Indexes: jobs_finished_idx, jobs_archive_pkey of every partition, sweeps_pkey.
SELECT 'detached' AS kind, c.relname::text AS what, 1::bigint AS found
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind = 'r' AND NOT c.relispartition
    AND c.relname ~ '^(jobs|job_attempts)_archive_\d{4,}_\d\d$'
UNION ALL
SELECT CASE WHEN a.id IS NOT NULL THEN 'known' ELSE 'passed_over' END, min(w.id::text), pg_catalog.count(*)
FROM (
    SELECT j.id
    FROM "{schema}".jobs j
    WHERE j.prune_at IS NOT NULL
        AND j.prune_at < (SELECT s.reached_at FROM "{schema}".sweeps s WHERE s.sweep = 'archive')
    ORDER BY j.prune_at, j.id
    LIMIT 1000
) w
LEFT JOIN LATERAL (SELECT h.id FROM "{schema}".jobs_archive h WHERE h.id = w.id LIMIT 1) a ON true
GROUP BY a.id IS NOT NULL
ORDER BY 1, 2;
