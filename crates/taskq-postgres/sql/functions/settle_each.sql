-- Records what became of attempts, whatever it is: one row per outcome, in their order. `reason` is applied; repeated
-- (this attempt had recorded this outcome already); stale (the fence (id, epoch, worker) does not hold, or the worker's
-- lease has ended); gone (no such job). Only applied changes anything, and only it is accepted.
-- A job whose cancellation was asked for ends cancelled instead of being tried again. One that keeps nothing is deleted as
-- it succeeds, with its attempts; its status is answered as that of any success.
-- Called by: settle_batch and complete, which have checked the arguments. Locks: the jobs, in the order of their ids. Indexes:
-- jobs_pkey, workers_pkey, job_attempts_pkey, cancel_requests_pkey.
--
-- First the rows are locked and read; then, in a statement of its own whose snapshot is younger than the
-- locks, they are updated by ctid, which cannot change while they are locked.
CREATE OR REPLACE FUNCTION "{schema}".settle_each(
    worker uuid, ids uuid[], epochs bigint[], outcomes text[], details jsonb[]
) RETURNS TABLE (id uuid, accepted boolean, reason text, status text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz;
    alive boolean;
    level text;
    nths bigint[];
    tids tid[];
    statuses text[];
    held_epochs bigint[];
    held_workers uuid[];
    phases smallint[];
    unkept boolean[];
BEGIN
    SELECT array_agg(o.nth), array_agg(o.id), array_agg(o.epoch), array_agg(o.outcome), array_agg(o.doc),
        array_agg(l.tid), array_agg(l.status), array_agg(l.epoch), array_agg(l.worker), array_agg(l.phase), array_agg(l.unkept)
    INTO nths, ids, epochs, outcomes, details, tids, statuses, held_epochs, held_workers, phases, unkept
    FROM (
        SELECT u.nth, u.id, u.epoch, u.outcome, u.doc
        FROM unnest(ids, epochs, outcomes, details) WITH ORDINALITY u(id, epoch, outcome, doc, nth)
        ORDER BY u.id, u.nth
    ) o
    LEFT JOIN LATERAL (
        SELECT j.ctid AS tid, j.status::text AS status, j.claim_epoch AS epoch, j.locked_by_worker AS worker,
            j.cancel_phase AS phase, j.keep = 'none' AS unkept
        FROM "{schema}".jobs j
        WHERE j.id = o.id
        FOR NO KEY UPDATE OF j
    ) l ON true;

    -- Read after the locks were waited for: a lease that ended meanwhile counts as ended.
    now := "{schema}".clock_now();
    SELECT w.state = 'active' AND w.lease_expires_at > now INTO alive FROM "{schema}".workers w WHERE w.id = worker;
    level := "{schema}".event_level();

    RETURN QUERY
        WITH fenced AS (
            SELECT i.*, coalesce(alive AND i.status = 'running' AND i.held_epoch = i.epoch AND i.held_worker = worker,
                false) AS holds
            FROM unnest(nths, ids, epochs, outcomes, details, tids, statuses, held_epochs, held_workers, phases, unkept)
                i(nth, id, epoch, outcome, doc, tid, status, held_epoch, held_worker, phase, unkept)
        ), ranked AS (
            -- Of several outcomes of one attempt in this call, the first one counts.
            SELECT f.*, f.holds AND row_number() OVER attempt = 1 AS applies,
                f.outcome = 'succeeded' AND f.doc IS NULL AND f.unkept IS NOT TRUE AS plain,
                f.outcome = 'succeeded' AND f.unkept IS TRUE AS drops
            FROM fenced f
            WINDOW attempt AS (PARTITION BY f.id, f.holds ORDER BY f.nth)
        ), timed AS MATERIALIZED (
            SELECT r.*, j.queue, j.attempt, j.started_at, j.schedule_to_close, j.spent,
                r.doc ->> 'delay' IS NOT NULL AS given,
                CASE
                    WHEN r.doc ->> 'delay' IS NOT NULL THEN now + (r.doc ->> 'delay')::interval
                    WHEN r.outcome = 'failed' THEN now + "{schema}".retry_delay(j.retry_policy, j.attempt)
                END AS next_at
            FROM ranked r
            LEFT JOIN LATERAL (
                SELECT j.queue, j.attempt, j.started_at, j.schedule_to_close, j.retry_policy, j.attempt >= j.max_attempts AS spent
                FROM "{schema}".jobs j
                WHERE j.ctid = r.tid AND r.applies AND r.outcome <> 'succeeded'
                OFFSET 0
            ) j ON true
        ), decided AS MATERIALIZED (
            SELECT t.*, CASE
                    WHEN NOT t.applies THEN NULL
                    WHEN t.outcome IN ('succeeded', 'cancelled', 'abandoned') THEN t.outcome
                    WHEN t.phase IS NOT NULL THEN 'cancelled'
                    WHEN t.outcome = 'failed' AND ((t.doc ->> 'final')::boolean IS TRUE OR (t.spent AND NOT t.given)
                        OR coalesce(t.next_at >= t.schedule_to_close, false)) THEN 'failed'
                    WHEN t.next_at > now THEN 'scheduled'
                    ELSE 'pending'
                END AS becomes
            FROM timed t
        ), updated AS (
            UPDATE "{schema}".jobs j
            SET status = d.becomes::"{schema}".job_status,
                attempt = CASE WHEN d.becomes IN ('pending', 'scheduled') AND (d.outcome <> 'failed' OR d.given)
                    THEN j.attempt - 1 ELSE j.attempt END,
                locked_by_worker = CASE WHEN d.becomes NOT IN ('pending', 'scheduled') THEN j.locked_by_worker END,
                scheduled_at = CASE WHEN d.becomes IN ('pending', 'scheduled') THEN coalesce(d.next_at, j.scheduled_at)
                    ELSE j.scheduled_at END,
                -- Which word ended a job whose cancellation was asked for, to know it again.
                cancel_phase = CASE WHEN d.becomes = 'cancelled' AND d.phase IS NOT NULL
                    THEN CASE d.outcome WHEN 'failed' THEN 2 WHEN 'snoozed' THEN 3 WHEN 'released' THEN 4 ELSE d.phase END
                    ELSE j.cancel_phase END,
                finished_at = CASE WHEN d.becomes NOT IN ('pending', 'scheduled') THEN now END,
                prune_at = CASE WHEN d.becomes NOT IN ('pending', 'scheduled')
                    THEN "{schema}".hot_until(now, d.becomes, j.actor) END,
                result = CASE WHEN d.outcome = 'succeeded' THEN d.doc -> 'result' END,
                result_expires_at = CASE WHEN d.outcome = 'succeeded' AND d.doc -> 'result' IS NOT NULL
                    THEN "{schema}".result_expiry(now) END,
                error = CASE
                    WHEN d.outcome = 'succeeded' THEN NULL
                    WHEN d.outcome = 'failed' OR jsonb_typeof(d.doc -> 'error') = 'object'
                        THEN "{schema}".error_record(d.doc -> 'error')
                    ELSE j.error END
            FROM decided d
            WHERE j.ctid = d.tid AND d.applies AND NOT d.plain AND NOT d.drops
        ), ended AS (
            -- Successes with nothing to add, the bulk of most calls, by a list of addresses instead of one by one.
            UPDATE "{schema}".jobs j
            SET status = 'succeeded', finished_at = now, result = NULL, error = NULL,
                -- As hot_until says it, without a call for each.
                prune_at = now + coalesce(
                    CASE WHEN EXISTS (SELECT FROM "{schema}".actor_config a WHERE a.hot_period IS NOT NULL)
                        THEN (SELECT a.hot_period FROM "{schema}".actor_config a WHERE a.actor = j.actor) END,
                    (SELECT (s.value #>> '{}')::interval FROM "{schema}".settings s
                        WHERE s.name = 'hot_period' AND "{schema}".setting_problem(s.name, s.value) IS NULL),
                    '1 hour')
            WHERE j.ctid = ANY (ARRAY(SELECT d.tid FROM decided d WHERE d.applies AND d.plain))
        ), gone AS (
            DELETE FROM "{schema}".jobs j WHERE j.ctid = ANY (ARRAY(SELECT d.tid FROM decided d WHERE d.applies AND d.drops))
        ), history AS (
            -- Only a later attempt has earlier ones.
            DELETE FROM "{schema}".job_attempts a
            WHERE a.job_id = ANY (ARRAY(SELECT d.id FROM decided d WHERE d.applies AND d.drops AND d.epoch <> 1))
        ), attempts AS (
            INSERT INTO "{schema}".job_attempts (job_id, epoch, attempt, outcome, worker, started_at, finished_at, error)
            SELECT d.id, d.epoch, d.attempt, d.outcome, worker, d.started_at, now,
                CASE WHEN d.outcome = 'failed' THEN "{schema}".error_record(d.doc -> 'error') END
            FROM decided d
            WHERE d.becomes IN ('pending', 'scheduled')
        ), requests AS (
            DELETE FROM "{schema}".cancel_requests c
            USING decided d
            WHERE d.phase IS NOT NULL AND d.applies AND c.job_id = d.id
        ), events AS (
            INSERT INTO "{schema}".job_events (job_id, occurred_at, kind, detail)
            SELECT d.id, now, CASE WHEN d.becomes = 'cancelled' THEN 'cancelled'
                    WHEN d.outcome = 'failed' AND d.becomes <> 'failed' THEN 'retried' ELSE d.outcome END,
                jsonb_strip_nulls(jsonb_build_object('epoch', d.epoch, 'attempt', d.attempt,
                    'next_at', CASE WHEN d.becomes = 'scheduled' THEN d.next_at END,
                    'class', d.doc #>> '{error,class}'))
            FROM decided d
            WHERE d.applies AND (level = 'all' OR level = 'ends' AND d.becomes IN ('succeeded', 'failed') OR level IN ('notable', 'ends')
                AND (d.outcome = 'snoozed' OR d.becomes IN ('cancelled', 'abandoned') OR d.outcome = 'failed' AND d.becomes <> 'failed'))
        ), woken AS MATERIALIZED (
            SELECT "{schema}".wake(array_agg(DISTINCT d.queue) FILTER (WHERE d.becomes = 'pending'),
                bool_or(d.becomes = 'scheduled' AND d.next_at < now + interval '2 seconds'))
            FROM decided d
            WHERE d.becomes IN ('pending', 'scheduled')
            HAVING count(*) > 0
        )
        SELECT d.id, d.applies, v.reason,
            CASE WHEN d.holds THEN first_value(d.becomes) OVER attempt ELSE d.status END
        FROM decided d
        CROSS JOIN LATERAL (
            SELECT CASE
                WHEN d.applies THEN 'applied'
                WHEN d.tid IS NULL THEN 'gone'
                WHEN d.holds THEN CASE WHEN d.outcome = (
                    SELECT f.outcome FROM decided f WHERE f.id = d.id AND f.applies) THEN 'repeated' ELSE 'stale' END
                WHEN d.held_epoch = d.epoch AND d.held_worker = worker AND (d.status = d.outcome
                    OR d.status = 'cancelled' AND d.phase = CASE d.outcome WHEN 'failed' THEN 2 WHEN 'snoozed' THEN 3 WHEN 'released' THEN 4 END)
                    THEN 'repeated'
                -- Not EXISTS, which could be answered from all attempts at once.
                WHEN (
                    SELECT a.worker = settle_each.worker AND a.outcome = d.outcome FROM "{schema}".job_attempts a
                    WHERE a.job_id = d.id AND a.epoch = d.epoch LIMIT 1
                ) THEN 'repeated'
                ELSE 'stale'
            END AS reason
        ) v
        -- The wake-ups are sent by reading this.
        LEFT JOIN woken w ON true
        WINDOW attempt AS (PARTITION BY d.id, d.holds ORDER BY d.nth)
        ORDER BY d.nth;
END
$$;
