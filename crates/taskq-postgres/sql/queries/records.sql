-- Whole jobs by their ids, newest id first.
-- Called by: Store::job, Store::jobs. Indexes: jobs_pkey. Locks: none.
-- $1 uuid[]: at most 1,000 ids.
-- A stored retry policy may leave fields out and say its intervals in any form; here it is made complete.
SELECT j.id, j.queue, j.actor, j.status::text, j.priority, j.attempt, j.max_attempts, j.claim_epoch,
    j.payload, j.payload_version, j.created_at, j.scheduled_at, j.started_at, j.finished_at, NULL::timestamptz AS archived_at,
    j.locked_by_worker, j.status = 'running' AND j.cancel_phase IS NOT NULL AS cancel_requested, j.schedule_to_close, j.start_to_close,
    CASE WHEN j.retry_policy IS NOT NULL THEN pg_catalog.jsonb_build_object(
        'base', coalesce(extract(epoch FROM (j.retry_policy ->> 'base')::interval), 5)::text || ' seconds',
        'factor', coalesce(j.retry_policy -> 'factor', '2'),
        'cap', coalesce(extract(epoch FROM (j.retry_policy ->> 'cap')::interval), 3600)::text || ' seconds',
        'jitter', coalesce(j.retry_policy -> 'jitter', '0.2')) END AS retry_policy,
    j.fairness_key, j.error, j.result, j.result_expires_at, j.progress, j.tags, j.metadata, j.trace_context,
    coalesce(j.keep, 'all') AS keep
FROM "{schema}".jobs j
WHERE j.id = ANY ($1)
ORDER BY j.id DESC;
