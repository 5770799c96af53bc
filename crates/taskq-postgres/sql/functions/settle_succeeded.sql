-- Ends attempts as succeeded, all of them or none: true when every one held its fence and nobody had asked to cancel it,
-- else nothing has changed. A detail may carry the attempt's `result`. Jobs that keep nothing are deleted.
-- Called by: settle_batch, which has checked the arguments. Locks: the jobs, in the order of their ids. Indexes:
-- jobs_pkey, workers_pkey, settings_pkey, job_attempts_pkey, actor_config_pkey, actor_config_hot_period_idx.
--
-- Nearly every call of a worker reports just that, so it is one statement that locks, compares the fence and updates at
-- once. What it did is undone when the worker's lease turns out to have ended, or an attempt did not hold its fence:
-- settle_each finds out what each is. Without details the ids must be given in ascending order; else false is all
-- that can be said.
CREATE OR REPLACE FUNCTION "{schema}".settle_succeeded(worker uuid, ids uuid[], epochs bigint[], details jsonb[])
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := "{schema}".clock_now();
    expiry timestamptz;
    ended_ids uuid[];
    ended_epochs bigint[];
    ended bigint;
    attempts integer[];
    alive boolean;
    tell boolean;
BEGIN
    IF details IS NULL THEN
        WITH ended AS (
            UPDATE "{schema}".jobs j
            SET status = 'succeeded', finished_at = now, result = NULL, error = NULL,
                -- As hot_until says it, without a call for each.
                prune_at = now + coalesce(
                    CASE WHEN EXISTS (SELECT FROM "{schema}".actor_config a WHERE a.hot_period IS NOT NULL)
                        THEN (SELECT a.hot_period FROM "{schema}".actor_config a WHERE a.actor = j.actor) END,
                    (SELECT (s.value #>> '{}')::interval FROM "{schema}".settings s
                        WHERE s.name = 'hot_period' AND "{schema}".setting_problem(s.name, s.value) IS NULL),
                    '1 hour')
            -- The status as text: an index on running jobs must not offer itself for this probe by primary key.
            WHERE j.id = ANY (ids) AND j.status::text = 'running' AND j.locked_by_worker = worker AND j.cancel_phase IS NULL
                AND j.keep IS NULL
            RETURNING j.id, j.claim_epoch
        )
        SELECT array_agg(e.id), array_agg(e.claim_epoch) INTO ended_ids, ended_epochs FROM ended e;
        ended := coalesce(cardinality(ended_ids), 0);
    ELSE
        expiry := "{schema}".result_expiry(now);
        UPDATE "{schema}".jobs j
        SET status = 'succeeded', finished_at = now, result = o.result, error = NULL,
            prune_at = now + coalesce(
                CASE WHEN EXISTS (SELECT FROM "{schema}".actor_config a WHERE a.hot_period IS NOT NULL)
                    THEN (SELECT a.hot_period FROM "{schema}".actor_config a WHERE a.actor = j.actor) END,
                (SELECT (s.value #>> '{}')::interval FROM "{schema}".settings s
                    WHERE s.name = 'hot_period' AND "{schema}".setting_problem(s.name, s.value) IS NULL),
                '1 hour'),
            result_expires_at = CASE WHEN o.result IS NOT NULL THEN expiry END
        FROM (
            SELECT u.id, u.epoch, u.detail -> 'result' AS result
            FROM unnest(ids, epochs, details) u(id, epoch, detail) ORDER BY u.id
        ) o
        -- Not `j.id = o.id`, which would let the planner read all jobs in the order of their ids instead.
        WHERE j.id = ANY (ARRAY[o.id]) AND j.status::text = 'running' AND j.claim_epoch = o.epoch
            AND j.locked_by_worker = worker AND j.cancel_phase IS NULL AND j.keep IS NULL;
        GET DIAGNOSTICS ended = ROW_COUNT;
    END IF;
    IF ended = 0 THEN
        -- None of them is kept: they may all be such that keep nothing. Some of each are for settle_each, which locks
        -- them in one order.
        WITH gone AS (
            DELETE FROM "{schema}".jobs j
            WHERE j.id = ANY (ids) AND j.status::text = 'running' AND j.locked_by_worker = worker AND j.cancel_phase IS NULL
                AND j.keep = 'none'
            RETURNING j.id, j.claim_epoch, j.attempt
        )
        SELECT array_agg(g.id), array_agg(g.claim_epoch), array_agg(g.attempt) INTO ended_ids, ended_epochs, attempts FROM gone g;
        SELECT count(*) INTO ended
        FROM unnest(ended_ids, ended_epochs) e(id, epoch) JOIN unnest(ids, epochs) u(id, epoch) USING (id, epoch);
        -- Only a later attempt has earlier ones.
        IF 1 <> ANY (ended_epochs) THEN
            DELETE FROM "{schema}".job_attempts a
            WHERE a.job_id = ANY (ARRAY(SELECT e.id FROM unnest(ended_ids, ended_epochs) e(id, epoch) WHERE e.epoch <> 1));
        END IF;
    END IF;
    -- Looked at after the locks were waited for: a lease that ended meanwhile counts as ended.
    SELECT w.state = 'active' AND w.lease_expires_at > "{schema}".clock_now(),
        (SELECT s.value IN ('"ends"', '"all"') FROM "{schema}".settings s WHERE s.name = 'event_level')
    INTO alive, tell
    FROM "{schema}".workers w WHERE w.id = worker;
    IF (alive AND CASE WHEN details IS NULL THEN ended_ids = ids AND ended_epochs = epochs
            ELSE ended = cardinality(ids) AND coalesce(cardinality(ended_ids), ended) = ended END) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'TQ000';
    END IF;
    IF tell THEN
        INSERT INTO "{schema}".job_events (job_id, occurred_at, kind, detail)
        SELECT u.id, now, 'succeeded', jsonb_build_object('epoch', u.epoch, 'attempt', coalesce(g.attempt, j.attempt))
        FROM unnest(ids, epochs) u(id, epoch)
        LEFT JOIN unnest(ended_ids, attempts) g(id, attempt) ON g.id = u.id
        LEFT JOIN LATERAL (SELECT j.attempt FROM "{schema}".jobs j WHERE j.id = u.id OFFSET 0) j ON true;
    END IF;
    RETURN true;
EXCEPTION WHEN SQLSTATE 'TQ000' THEN
    RETURN false;
END
$$;
