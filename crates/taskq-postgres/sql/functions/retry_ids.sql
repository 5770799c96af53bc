-- Makes ended jobs ready again with a fresh budget of attempts and without their deadline: one row per id, in the order
-- given. `outcome` is retried, unfinished (it has not ended, so nothing was done) or not_found.
-- A job that is, once locked, in none of `only_in` counts as not found; NULL means any status. An archived job is moved back
-- among the others for it.
-- Called by: retry, retry_matching. Locks: the jobs, in the order of their ids, then archived ones likewise. Indexes: jobs_pkey,
-- job_attempts_pkey; for ids that are not among the jobs see bring_back.
-- The attempt that ended the job is on the job's own row; it is kept among the attempts before the row is used again.
CREATE OR REPLACE FUNCTION "{schema}".retry_ids(ids uuid[], only_in text[])
RETURNS TABLE (id uuid, outcome text, status text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz;
    nths bigint[];
    asked uuid[];
    tids tid[];
    statuses text[];
BEGIN
    FOR pass IN 1..2 LOOP
        SELECT array_agg(o.nth), array_agg(o.id), array_agg(l.tid), array_agg(l.status) INTO nths, asked, tids, statuses
        FROM (SELECT u.id, u.nth FROM unnest(ids) WITH ORDINALITY u(id, nth) ORDER BY u.id, u.nth) o
        LEFT JOIN LATERAL (
            SELECT j.ctid AS tid, j.status::text AS status FROM "{schema}".jobs j WHERE j.id = o.id FOR NO KEY UPDATE OF j
        ) l ON true;
        EXIT WHEN pass = 2 OR array_position(tids, NULL) IS NULL;
        -- Looked at once more in any case: somebody else may be bringing one back.
        PERFORM "{schema}".bring_back((SELECT array_agg(u.id) FROM unnest(asked, tids) u(id, tid) WHERE u.tid IS NULL), only_in);
    END LOOP;
    now := "{schema}".clock_now();
    RETURN QUERY
        WITH asked AS MATERIALIZED (
            SELECT i.*, row_number() OVER (PARTITION BY i.id ORDER BY i.nth) = 1 AS first,
                CASE WHEN i.tid IS NULL OR i.status <> ALL (only_in) THEN 'not_found'
                    WHEN i.status IN ('scheduled', 'blocked', 'pending', 'running') THEN 'unfinished'
                    ELSE 'retried' END AS outcome
            FROM unnest(nths, asked, tids, statuses) i(nth, id, tid, status)
        ), before AS MATERIALIZED (
            SELECT j.* FROM asked a
            CROSS JOIN LATERAL (SELECT j.* FROM "{schema}".jobs j WHERE j.ctid = a.tid OFFSET 0) j
            WHERE a.outcome = 'retried' AND a.first
        ), updated AS (
            UPDATE "{schema}".jobs j
            SET status = 'pending', attempt = 0, scheduled_at = now, schedule_to_close = NULL, locked_by_worker = NULL,
                started_at = NULL, finished_at = NULL, prune_at = NULL, cancel_phase = NULL, result = NULL,
                result_expires_at = NULL, progress = NULL, progress_seq = NULL
            FROM asked a
            WHERE j.ctid = a.tid AND a.outcome = 'retried' AND a.first
        ), attempts AS (
            INSERT INTO "{schema}".job_attempts (job_id, epoch, attempt, outcome, worker, started_at, finished_at, error)
            SELECT b.id, b.claim_epoch, b.attempt, b.status::text, b.locked_by_worker, b.started_at, b.finished_at, b.error
            FROM before b
            -- A job that ended before it started has made no attempt since the last one that is kept already.
            WHERE b.locked_by_worker IS NOT NULL
            ON CONFLICT ON CONSTRAINT job_attempts_pkey DO NOTHING
        ), events AS (
            INSERT INTO "{schema}".job_events (job_id, occurred_at, kind, detail)
            SELECT b.id, now, 'retried_by_operator', jsonb_build_object('status', b.status::text, 'epoch', b.claim_epoch)
            FROM before b WHERE "{schema}".event_level() <> 'off'
        ), woken AS MATERIALIZED (
            SELECT "{schema}".wake(array_agg(DISTINCT b.queue)) FROM before b
        )
        SELECT a.id, CASE WHEN a.outcome = 'retried' AND NOT a.first THEN 'unfinished' ELSE a.outcome END,
            CASE WHEN a.outcome = 'retried' THEN 'pending' ELSE a.status END
        FROM asked a LEFT JOIN woken w ON true
        ORDER BY a.nth;
END
$$;
