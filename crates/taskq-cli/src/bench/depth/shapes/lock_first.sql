-- Locks the head of the queue first, in the order of an index that has no id, and looks at actors afterwards.
-- Parameters: queue, actors, jobs wanted, worker, oversample.
WITH capacity AS (
    SELECT a.actor, $3 AS residual FROM unnest($2) a(actor)
), locked AS (
    SELECT j.id, j.actor, j.identity_key, j.priority, j.scheduled_at FROM "{schema}".jobs j
    WHERE j.queue = $1 AND j.status = 'pending' AND j.scheduled_at <= now()
    ORDER BY j.priority DESC, j.scheduled_at, j.id
    LIMIT $3 * $5
    FOR UPDATE OF j SKIP LOCKED
), ranked AS (
    SELECT l.*, p.residual,
        row_number() OVER (PARTITION BY l.actor ORDER BY l.priority DESC, l.scheduled_at, l.id) AS nth_of_actor,
        row_number() OVER (
            PARTITION BY l.actor, coalesce(l.identity_key, l.id::text) ORDER BY l.priority DESC, l.scheduled_at, l.id
        ) AS nth_of_identity
    FROM locked l
    JOIN capacity p ON p.actor = l.actor
), eligible AS (
    SELECT r.id FROM ranked r
    WHERE r.nth_of_identity = 1 AND r.nth_of_actor <= r.residual
    ORDER BY r.nth_of_actor, r.priority DESC, r.scheduled_at, r.id
    LIMIT $3
)
UPDATE "{schema}".jobs j
SET status = 'running', attempt = j.attempt + 1, claim_epoch = j.claim_epoch + 1, locked_by_worker = $4, started_at = now()
FROM eligible e
WHERE j.id = e.id AND j.status = 'pending'
RETURNING j.id, j.queue, j.actor, j.claim_epoch, j.attempt, j.max_attempts, j.priority, j.payload, j.payload_version,
    j.scheduled_at, j.schedule_to_close, j.start_to_close, j.fairness_key, j.identity_key, j.metadata, j.tags, j.trace_context
