-- Cancels jobs: one row per id, in the order given. `outcome` is cancelled (it had not started and has ended now),
-- requested (it runs; its worker is told), finished (it had ended already, and may be archived) or not_found.
-- A job that is, once locked, in none of `only_in` counts as not found; NULL means any status.
-- Called by: cancel, cancel_matching. Locks: the jobs, in the order of their ids. Indexes: jobs_pkey; jobs_archive_pkey of
-- every partition, for ids that are not among the jobs.
CREATE OR REPLACE FUNCTION "{schema}".cancel_ids(ids uuid[], reason text, only_in text[])
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
    told jsonb;
BEGIN
    told := "{schema}".error_record(jsonb_build_object('class', 'cancelled', 'message', coalesce(reason, 'cancelled on request')));
    SELECT array_agg(o.nth), array_agg(o.id), array_agg(l.tid), array_agg(l.status) INTO nths, asked, tids, statuses
    FROM (SELECT u.id, u.nth FROM unnest(ids) WITH ORDINALITY u(id, nth) ORDER BY u.id, u.nth) o
    LEFT JOIN LATERAL (
        SELECT j.ctid AS tid, j.status::text AS status FROM "{schema}".jobs j WHERE j.id = o.id FOR NO KEY UPDATE OF j
    ) l ON true;
    IF array_position(tids, NULL) IS NOT NULL THEN
        SELECT array_agg(coalesce(u.status, ("{schema}".archived_job(u.id)).status) ORDER BY u.place) INTO statuses
        FROM unnest(asked, statuses) WITH ORDINALITY u(id, status, place);
    END IF;
    now := "{schema}".clock_now();
    RETURN QUERY
        WITH asked AS MATERIALIZED (
            SELECT i.*, row_number() OVER (PARTITION BY i.id ORDER BY i.nth) = 1 AS first,
                CASE WHEN i.status IS NULL OR i.status <> ALL (only_in) THEN 'not_found'
                    WHEN i.status IN ('scheduled', 'blocked', 'pending') THEN 'cancelled'
                    WHEN i.status = 'running' THEN 'requested'
                    ELSE 'finished' END AS outcome
            FROM unnest(nths, asked, tids, statuses) i(nth, id, tid, status)
        ), ended AS (
            UPDATE "{schema}".jobs j
            SET status = 'cancelled', finished_at = now, prune_at = "{schema}".hot_until(now, 'cancelled', j.actor), error = told
            FROM asked a
            WHERE j.ctid = a.tid AND a.outcome = 'cancelled' AND a.first
        ), marked AS (
            UPDATE "{schema}".jobs j SET cancel_phase = 1
            FROM asked a
            WHERE j.ctid = a.tid AND a.outcome = 'requested' AND a.first AND j.cancel_phase IS NULL
            RETURNING j.id, j.claim_epoch, j.locked_by_worker
        ), requests AS (
            INSERT INTO "{schema}".cancel_requests (job_id, epoch, worker, requested_at)
            SELECT m.id, m.claim_epoch, m.locked_by_worker, now FROM marked m
            ON CONFLICT (job_id) DO UPDATE SET epoch = excluded.epoch, worker = excluded.worker, requested_at = excluded.requested_at
        ), events AS (
            INSERT INTO "{schema}".job_events (job_id, occurred_at, kind, detail)
            SELECT a.id, now, CASE a.outcome WHEN 'cancelled' THEN 'cancelled' ELSE 'cancel_requested' END,
                jsonb_strip_nulls(jsonb_build_object('reason', "{schema}".clip(reason, 65536)))
            FROM asked a
            WHERE a.first AND (a.outcome = 'cancelled' OR a.id IN (SELECT m.id FROM marked m)) AND "{schema}".event_level() <> 'off'
        ), woken AS MATERIALIZED (
            SELECT count(pg_notify('{schema}:cancel', w.worker::text)) FROM (SELECT DISTINCT m.locked_by_worker FROM marked m) w(worker)
        )
        SELECT a.id, CASE WHEN a.outcome = 'cancelled' AND NOT a.first THEN 'finished' ELSE a.outcome END,
            CASE WHEN a.outcome = 'cancelled' THEN 'cancelled' ELSE a.status END
        FROM asked a LEFT JOIN woken w ON true
        ORDER BY a.nth;
END
$$;
