-- Moves archived jobs back among the others, with their attempts, ended as they are: of the ids those whose status is in
-- `only_in`; NULL means any. An id that the archive has twice, by somebody's hand, is moved as it ended last.
-- Called by: retry_ids, for ids that are not among the jobs, which goes on with them in the same transaction. Locks: the
-- archived jobs, in the order of their ids. Indexes: jobs_archive_pkey and job_attempts_archive_pkey of every partition.
-- A row is deleted and written in one statement, so that it is in exactly one of the two.
CREATE OR REPLACE FUNCTION "{schema}".bring_back(ids uuid[], only_in text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    found uuid[];
    times timestamptz[];
BEGIN
    SELECT array_agg(d.id), array_agg(d.finished_at) INTO found, times
    FROM (
        SELECT DISTINCT ON (l.id) l.id, l.finished_at
        FROM (
            SELECT a.id, a.finished_at FROM "{schema}".jobs_archive a
            WHERE a.id = ANY (ids) AND (only_in IS NULL OR a.status::text = ANY (only_in))
            ORDER BY a.id
            FOR UPDATE OF a
        ) l
        ORDER BY l.id, l.finished_at DESC
    ) d;
    IF found IS NULL THEN
        RETURN;
    END IF;
    WITH gone AS (
        DELETE FROM "{schema}".jobs_archive a USING unnest(found, times) u(id, finished_at)
        WHERE a.id = u.id AND a.finished_at = u.finished_at
        RETURNING a.id, a.created_at, a.priority, a.max_attempts, a.payload_version, a.scheduled_at, a.claim_epoch, a.status,
            a.attempt, a.locked_by_worker, a.started_at, a.finished_at, a.cancel_phase, a.progress_seq, a.result_expires_at,
            a.error, a.progress, a.result, a.queue, a.actor, a.cohort, a.payload, a.schedule_to_close, a.start_to_close,
            a.retry_policy, a.fairness_key, a.identity_key, a.unique_key, a.keep, a.trace_context, a.metadata, a.tags,
            a.batch_id, a.parent_id
    )
    INSERT INTO "{schema}".jobs (
        id, created_at, priority, max_attempts, payload_version, scheduled_at, claim_epoch, status,
        attempt, locked_by_worker, started_at, finished_at, prune_at, cancel_phase, progress_seq, result_expires_at,
        error, progress, result, queue, actor, cohort, payload, schedule_to_close, start_to_close,
        retry_policy, fairness_key, identity_key, unique_key, keep, trace_context, metadata, tags,
        batch_id, parent_id)
    SELECT g.id, g.created_at, g.priority, g.max_attempts, g.payload_version, g.scheduled_at, g.claim_epoch, g.status,
        g.attempt, g.locked_by_worker, g.started_at, g.finished_at, g.finished_at, g.cancel_phase, g.progress_seq, g.result_expires_at,
        g.error, g.progress, g.result, g.queue, g.actor, g.cohort, g.payload, g.schedule_to_close, g.start_to_close,
        g.retry_policy, g.fairness_key, g.identity_key, g.unique_key, g.keep, g.trace_context, g.metadata, g.tags,
        g.batch_id, g.parent_id
    FROM gone g;
    WITH gone AS (
        DELETE FROM "{schema}".job_attempts_archive a USING unnest(found, times) u(id, finished_at)
        WHERE a.job_id = u.id AND a.job_finished_at = u.finished_at
        RETURNING a.job_id, a.epoch, a.attempt, a.outcome, a.worker, a.started_at, a.finished_at, a.error
    )
    INSERT INTO "{schema}".job_attempts (job_id, epoch, attempt, outcome, worker, started_at, finished_at, error)
    SELECT g.job_id, g.epoch, g.attempt, g.outcome, g.worker, g.started_at, g.finished_at, g.error
    FROM gone g;
END
$$;
