-- Moves locked rows of `jobs` to the archive, with their attempts; halves the batch at an error, down to the one row that
-- raises it. That one is counted among the problems and left where it is.
-- Called by: sweep_archive, itself. Locks: the attempts. Indexes: job_attempts_pkey.
-- A row is deleted and written in one statement, so that it is in exactly one of the two. A result that is kept no longer
-- stays behind; its stamp says why.
CREATE OR REPLACE FUNCTION "{schema}".archive_rows(tids tid[], now timestamptz)
RETURNS TABLE (swept bigint, problems bigint, problem text)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    half integer := cardinality(tids) / 2;
    raised text;
    first_half record;
    second_half record;
BEGIN
    IF tids IS NULL THEN
        RETURN QUERY SELECT 0::bigint, 0::bigint, NULL::text;
        RETURN;
    END IF;
    BEGIN
        WITH gone AS (
            DELETE FROM "{schema}".jobs j WHERE j.ctid = ANY (tids)
            RETURNING j.id, j.created_at, j.priority, j.max_attempts, j.payload_version, j.scheduled_at, j.claim_epoch, j.status,
                j.attempt, j.locked_by_worker, j.started_at, j.finished_at, j.cancel_phase, j.progress_seq, j.result_expires_at,
                j.error, j.progress, j.result, j.queue, j.actor, j.cohort, j.payload, j.schedule_to_close, j.start_to_close,
                j.retry_policy, j.fairness_key, j.identity_key, j.unique_key, j.keep, j.trace_context, j.metadata, j.tags,
                j.batch_id, j.parent_id
        ), kept AS (
            INSERT INTO "{schema}".jobs_archive (
                id, created_at, priority, max_attempts, payload_version, scheduled_at, claim_epoch, status,
                attempt, locked_by_worker, started_at, finished_at, archived_at, cancel_phase, progress_seq, result_expires_at,
                error, progress, result, queue, actor, cohort, payload, schedule_to_close, start_to_close,
                retry_policy, fairness_key, identity_key, unique_key, keep, trace_context, metadata, tags,
                batch_id, parent_id)
            SELECT g.id, g.created_at, g.priority, g.max_attempts, g.payload_version, g.scheduled_at, g.claim_epoch, g.status,
                g.attempt, g.locked_by_worker, g.started_at, g.finished_at, now, g.cancel_phase, g.progress_seq, g.result_expires_at,
                g.error, g.progress, CASE WHEN g.result_expires_at <= now THEN NULL ELSE g.result END, g.queue, g.actor, g.cohort,
                g.payload, g.schedule_to_close, g.start_to_close, g.retry_policy, g.fairness_key, g.identity_key, g.unique_key,
                g.keep, g.trace_context, g.metadata, g.tags, g.batch_id, g.parent_id
            FROM gone g
        ), history AS (
            -- Only a later attempt has earlier ones.
            DELETE FROM "{schema}".job_attempts a USING gone g
            WHERE g.claim_epoch > 1 AND a.job_id = g.id
            RETURNING a.job_id, g.finished_at AS job_finished_at, a.epoch, a.attempt, a.outcome, a.worker, a.started_at,
                a.finished_at, a.error
        )
        INSERT INTO "{schema}".job_attempts_archive (
            job_id, job_finished_at, epoch, attempt, outcome, worker, started_at, finished_at, error)
        SELECT h.job_id, h.job_finished_at, h.epoch, h.attempt, h.outcome, h.worker, h.started_at, h.finished_at, h.error
        FROM history h;
    EXCEPTION WHEN OTHERS THEN
        raised := format('%s (SQLSTATE %s)', SQLERRM, SQLSTATE);
    END;
    IF raised IS NULL THEN
        RETURN QUERY SELECT cardinality(tids)::bigint, 0::bigint, NULL::text;
    ELSIF half = 0 THEN
        RETURN QUERY SELECT 0::bigint, 1::bigint, format('job %s: %s', j.id, raised) FROM "{schema}".jobs j WHERE j.ctid = tids[1];
    ELSE
        SELECT r.* INTO first_half FROM "{schema}".archive_rows(tids[:half], now) r;
        SELECT r.* INTO second_half FROM "{schema}".archive_rows(tids[half + 1:], now) r;
        RETURN QUERY SELECT first_half.swept + second_half.swept, first_half.problems + second_half.problems,
            coalesce(first_half.problem, second_half.problem);
    END IF;
END
$$;
