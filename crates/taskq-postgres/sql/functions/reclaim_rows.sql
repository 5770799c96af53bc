-- Moves locked rows of lost workers, burning no attempt of those in `forgiven`; halves the batch at an error, down to the one
-- row that raises it.
-- Called by: reclaim, itself. Locks: none further. Indexes: jobs_pkey, job_attempts_pkey, cancel_requests_pkey.
-- A job whose cancellation was asked for ends cancelled; one whose attempts are spent ends crashed; any other waits for
-- its policy's delay, the first time for at most a second.
DROP FUNCTION IF EXISTS "{schema}".reclaim_rows(tid[], boolean);
CREATE OR REPLACE FUNCTION "{schema}".reclaim_rows(tids tid[], forgiven uuid[])
RETURNS TABLE (id uuid, epoch bigint, status text, problem text)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := "{schema}".clock_now();
    half integer := cardinality(tids) / 2;
    raised text;
    ids uuid[];
    epochs bigint[];
    became text[];
BEGIN
    BEGIN
        WITH decided AS MATERIALIZED (
            SELECT j.ctid AS tid, j.id, j.claim_epoch, j.attempt, j.locked_by_worker, j.started_at, j.queue,
                jsonb_build_object('class', 'lost', 'message', format('worker %s was lost', j.locked_by_worker)) AS error,
                CASE WHEN j.cancel_phase IS NOT NULL THEN 'cancelled'
                    WHEN j.locked_by_worker = ANY (forgiven) THEN 'pending'
                    WHEN j.attempt >= j.max_attempts THEN 'crashed'
                    ELSE 'scheduled' END AS becomes,
                now + CASE WHEN j.attempt <= 1
                    THEN least("{schema}".retry_delay(j.retry_policy, j.attempt), interval '1 second')
                    ELSE "{schema}".retry_delay(j.retry_policy, j.attempt) END AS next_at
            FROM "{schema}".jobs j
            WHERE j.ctid = ANY (tids)
        ), moved AS (
            UPDATE "{schema}".jobs j
            SET status = d.becomes::"{schema}".job_status,
                attempt = CASE WHEN d.becomes = 'pending' THEN j.attempt - 1 ELSE j.attempt END,
                locked_by_worker = CASE WHEN d.becomes IN ('cancelled', 'crashed') THEN j.locked_by_worker END,
                scheduled_at = CASE WHEN d.becomes = 'scheduled' THEN d.next_at ELSE j.scheduled_at END,
                finished_at = CASE WHEN d.becomes IN ('cancelled', 'crashed') THEN now END,
                prune_at = CASE WHEN d.becomes IN ('cancelled', 'crashed') THEN "{schema}".hot_until(now, d.becomes, j.actor) END,
                error = d.error
            FROM decided d
            WHERE j.ctid = d.tid
        ), attempts AS (
            INSERT INTO "{schema}".job_attempts (job_id, epoch, attempt, outcome, worker, started_at, finished_at, error)
            SELECT d.id, d.claim_epoch, d.attempt, 'crashed', d.locked_by_worker, d.started_at, now, d.error
            FROM decided d WHERE d.becomes IN ('scheduled', 'pending')
        ), events AS (
            INSERT INTO "{schema}".job_events (job_id, occurred_at, kind, detail)
            SELECT d.id, now, CASE d.becomes WHEN 'crashed' THEN 'crashed' WHEN 'cancelled' THEN 'cancelled' ELSE 'reclaimed' END,
                jsonb_build_object('epoch', d.claim_epoch, 'attempt', d.attempt, 'worker', d.locked_by_worker)
            FROM decided d WHERE "{schema}".event_level() <> 'off'
        ), requests AS (
            DELETE FROM "{schema}".cancel_requests c USING decided d WHERE c.job_id = d.id AND d.becomes = 'cancelled'
        ), woken AS MATERIALIZED (
            SELECT "{schema}".wake(array_agg(DISTINCT d.queue) FILTER (WHERE d.becomes = 'pending'),
                bool_or(d.becomes = 'scheduled'))
            FROM decided d
        )
        SELECT array_agg(d.id), array_agg(d.claim_epoch), array_agg(d.becomes) INTO ids, epochs, became
        FROM decided d LEFT JOIN woken w ON true;
    EXCEPTION WHEN OTHERS THEN
        -- No fault of a row: a server without means, or one that stops.
        IF left(SQLSTATE, 2) IN ('53', '57', '58') THEN
            RAISE;
        END IF;
        raised := format('%s (SQLSTATE %s)', SQLERRM, SQLSTATE);
    END;
    -- Out here, because rows that a block has returned stay returned when it is rolled back.
    IF raised IS NULL THEN
        RETURN QUERY SELECT m.id, m.epoch, m.status, NULL::text FROM unnest(ids, epochs, became) m(id, epoch, status);
    ELSIF half = 0 THEN
        RETURN QUERY SELECT j.id, j.claim_epoch, j.status::text, raised FROM "{schema}".jobs j WHERE j.ctid = ANY (tids);
    ELSE
        RETURN QUERY SELECT * FROM "{schema}".reclaim_rows(tids[:half], forgiven);
        RETURN QUERY SELECT * FROM "{schema}".reclaim_rows(tids[half + 1:], forgiven);
    END IF;
END
$$;
