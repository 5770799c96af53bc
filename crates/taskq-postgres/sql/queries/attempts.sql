-- The attempts of a job that did not end it, oldest first; of more than 10,000 the latest 10,000.
-- Called by: Store::attempts. Indexes: job_attempts_pkey. Locks: none.
-- $1 uuid: the job.
SELECT a.job_id, a.epoch, a.attempt, a.outcome, a.worker, a.started_at, a.finished_at, a.error
FROM (
    SELECT t.*
    FROM "{schema}".job_attempts t
    WHERE t.job_id = $1
    ORDER BY t.job_id DESC, t.epoch DESC
    LIMIT 10000
) a
ORDER BY a.epoch;
