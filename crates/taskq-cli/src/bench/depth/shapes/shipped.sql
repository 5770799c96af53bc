-- One large statement: candidates of each actor, ranked, joined back to the table of jobs and locked, and then joined
-- back once more by the update. Both joins go to all ready jobs when the planner thinks so.
-- Parameters: queue, actors, jobs wanted, worker, oversample.
WITH params AS (
    SELECT $3 AS wanted, $5 AS oversample
), capacity AS (
    SELECT a.actor, $3 AS residual FROM unnest($2) a(actor)
), candidates AS (
    SELECT c.*, p.residual
    FROM capacity p
    CROSS JOIN LATERAL (
        SELECT j.id, j.actor, j.identity_key, j.priority, j.scheduled_at FROM "{schema}".jobs j
        WHERE j.queue = $1 AND j.actor = p.actor AND j.cohort = '' AND j.status = 'pending' AND j.scheduled_at <= now()
        ORDER BY j.priority DESC, j.scheduled_at, j.id
        LIMIT (SELECT p.wanted * p.oversample FROM params p)
    ) c
    WHERE p.residual > 0
), distinct_identities AS (
    SELECT DISTINCT ON (c.actor, coalesce(c.identity_key, c.id::text)) c.*
    FROM candidates c
    ORDER BY c.actor, coalesce(c.identity_key, c.id::text), c.priority DESC, c.scheduled_at, c.id
), ranked AS (
    SELECT i.*, row_number() OVER (
        PARTITION BY i.actor ORDER BY i.priority DESC, i.scheduled_at, i.id
    ) AS nth_of_actor
    FROM distinct_identities i
), locked AS (
    SELECT r.id, r.actor, r.nth_of_actor, r.residual
    FROM ranked r
    JOIN "{schema}".jobs j ON j.id = r.id
    WHERE j.status = 'pending'
    ORDER BY r.nth_of_actor, r.priority DESC, r.scheduled_at, r.id
    LIMIT (SELECT p.wanted FROM params p)
    FOR UPDATE OF j SKIP LOCKED
), eligible AS (
    SELECT e.id
    FROM (SELECT l.id, l.residual, row_number() OVER (PARTITION BY l.actor ORDER BY l.nth_of_actor) AS nth FROM locked l) e
    WHERE e.nth <= e.residual
)
UPDATE "{schema}".jobs j
SET status = 'running', attempt = j.attempt + 1, claim_epoch = j.claim_epoch + 1, locked_by_worker = $4, started_at = now()
FROM eligible e
WHERE j.id = e.id AND j.status = 'pending'
RETURNING j.id, j.queue, j.actor, j.claim_epoch, j.attempt, j.max_attempts, j.priority, j.payload, j.payload_version,
    j.scheduled_at, j.schedule_to_close, j.start_to_close, j.fairness_key, j.identity_key, j.metadata, j.tags, j.trace_context
