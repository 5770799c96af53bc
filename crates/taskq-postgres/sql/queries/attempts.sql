-- The attempts of a job that did not end it, oldest first; of more than 10,000 the latest 10,000. The archive has those of
-- the jobs that it has.
-- Called by: Store::attempts. Indexes: job_attempts_pkey, job_attempts_archive_pkey of every partition. Locks: none.
-- $1 uuid: the job.
SELECT a.job_id, a.epoch, a.attempt, a.outcome, a.worker, a.started_at, a.finished_at, a.error
FROM (
    SELECT b.*
    FROM (
        (
            SELECT t.job_id, t.epoch, t.attempt, t.outcome, t.worker, t.started_at, t.finished_at, t.error
            FROM "{schema}".job_attempts t
            WHERE t.job_id = $1
            ORDER BY t.job_id DESC, t.epoch DESC
            LIMIT 10000
        )
        UNION ALL
        (
            SELECT t.job_id, t.epoch, t.attempt, t.outcome, t.worker, t.started_at, t.finished_at, t.error
            FROM "{schema}".job_attempts_archive t
            WHERE t.job_id = $1
            ORDER BY t.job_id DESC, t.epoch DESC
            LIMIT 10000
        )
    ) b
    ORDER BY b.epoch DESC
    LIMIT 10000
) a
ORDER BY a.epoch;
