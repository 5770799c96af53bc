-- Takes running jobs from lost workers, at most `max_rows`: back to be tried again, or to their end. Returns one row per
-- job that was looked at; `problem` is null where it was moved. A row that cannot be moved never holds up the others:
-- it is reported, and passed over when it stands in `skip`. Where there may be more, a last row without a job says behind
-- which place to go on: `reached_at`, `reached_id`, which are the next call's `after_at`, `after_id`.
-- Called by: the leader, after mark_lost has committed. Locks: the leader's row FOR KEY SHARE, then the jobs and the
-- workers that are dealt with, SKIP LOCKED. Indexes: jobs_running_idx, jobs_pkey.
-- `outage_began` and `outage_ended` say how long ago the database itself was away: no attempt is burnt of a worker whose
-- lease ended since the one and that has not been heard of since the other.
-- A worker's jobs are looked for from the oldest on, in slices of time that grow while they are cheap, for about half a second
-- a call: an old snapshot keeps the entries of all that the worker has run, and each has to be passed. A smaller batch has
-- smaller slices.
DROP FUNCTION IF EXISTS "{schema}".reclaim(uuid, bigint, integer, boolean, uuid[]);
CREATE OR REPLACE FUNCTION "{schema}".reclaim(
    leader uuid, leader_epoch bigint, max_rows integer, outage_began interval DEFAULT NULL, outage_ended interval DEFAULT NULL,
    skip uuid[] DEFAULT '{}', after_at timestamptz DEFAULT NULL, after_id text DEFAULT NULL
) RETURNS TABLE (id uuid, epoch bigint, status text, problem text, reached_at timestamptz, reached_id text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := "{schema}".clock();
    began timestamptz := clock_timestamp();
    patience constant interval := interval '500 milliseconds';
    passed_over uuid[] := coalesce(skip, '{}');
    first_worker uuid := left(after_id, 36)::uuid;
    worker record;
    -- Where the search of a worker's jobs is, and whether it has met any that stay.
    since timestamptz;
    upto timestamptz;
    any_left boolean;
    width interval;
    looked timestamptz;
    most integer;
    seen tid[];
    youngest timestamptz;
    locked tid[];
    tids tid[] := '{}';
    forgiven uuid[] := '{}';
    emptied uuid[] := '{}';
    stuck uuid[] := '{}';
    stop_at timestamptz;
    taken record;
BEGIN
    PERFORM "{schema}".require_read_committed('reclaim');
    PERFORM "{schema}".check_max_rows(max_rows);
    PERFORM "{schema}".require_leader(leader, leader_epoch, true);
    <<workers>>
    FOR worker IN
        SELECT w.id, w.started_at,
            coalesce(w.lease_expires_at >= now - outage_began AND w.beat_at <= now - outage_ended, false) AS is_forgiven
        FROM "{schema}".workers w
        WHERE w.state = 'lost' AND w.reclaimed_at IS NULL AND (first_worker IS NULL OR w.id >= first_worker)
        ORDER BY w.id
    LOOP
        since := '-infinity';
        any_left := false;
        IF worker.id = first_worker THEN
            since := coalesce(after_at, since);
            any_left := right(after_id, 1) = '+';
        END IF;
        IF worker.is_forgiven THEN
            forgiven := forgiven || worker.id;
        END IF;
        width := interval '10 milliseconds' * max_rows;
        LOOP
            looked := clock_timestamp();
            upto := greatest(since, worker.started_at) + width;
            IF upto >= now THEN
                upto := 'infinity';
            END IF;
            most := max_rows - cardinality(tids) + cardinality(passed_over);
            SELECT array_agg(r.tid), max(r.started_at) INTO seen, youngest
            FROM (
                SELECT j.ctid AS tid, j.started_at FROM "{schema}".jobs j
                WHERE j.locked_by_worker = worker.id AND j.status = 'running' AND j.started_at >= since AND j.started_at < upto
                ORDER BY j.started_at
                LIMIT most
            ) r;
            IF seen IS NOT NULL THEN
                SELECT array_agg(l.tid) INTO locked
                FROM (
                    SELECT j.ctid AS tid FROM "{schema}".jobs j
                    WHERE j.ctid = ANY (seen) AND j.status::text = 'running' AND j.id <> ALL (passed_over)
                    ORDER BY j.started_at
                    LIMIT max_rows - cardinality(tids)
                    FOR NO KEY UPDATE SKIP LOCKED
                ) l;
                tids := tids || locked;
                any_left := any_left OR coalesce(cardinality(locked), 0) < cardinality(seen);
            END IF;
            IF cardinality(tids) = max_rows THEN
                -- Others may have started at the very same time.
                stop_at := youngest;
            ELSIF cardinality(seen) = most THEN
                since := youngest + interval '1 microsecond';
            ELSIF upto = 'infinity' THEN
                -- Nothing can come to run under a lost worker, so what is empty stays so and need not be looked at again.
                IF NOT any_left THEN
                    emptied := emptied || worker.id;
                END IF;
                EXIT;
            ELSE
                since := upto;
            END IF;
            IF stop_at IS NULL AND clock_timestamp() - began > patience THEN
                stop_at := since;
            END IF;
            EXIT workers WHEN stop_at IS NOT NULL;
            width := CASE WHEN clock_timestamp() - looked < patience / 10 THEN least(width * 4, interval '3.6 seconds' * max_rows)
                WHEN clock_timestamp() - looked > patience / 2 THEN width / 4
                ELSE width END;
        END LOOP;
    END LOOP;
    IF tids <> '{}' THEN
        FOR taken IN SELECT r.id, r.epoch, r.status, r.problem FROM "{schema}".reclaim_rows(tids, forgiven) r LOOP
            IF taken.problem IS NOT NULL THEN
                stuck := stuck || (SELECT j.locked_by_worker FROM "{schema}".jobs j WHERE j.id = taken.id);
            END IF;
            RETURN QUERY SELECT taken.id, taken.epoch, taken.status, taken.problem, NULL::timestamptz, NULL::text;
        END LOOP;
    END IF;
    UPDATE "{schema}".workers w SET reclaimed_at = "{schema}".clock_now()
    WHERE w.id IN (
        SELECT e.id FROM "{schema}".workers e
        WHERE e.id = ANY (emptied) AND e.id <> ALL (stuck) AND e.reclaimed_at IS NULL
        FOR NO KEY UPDATE SKIP LOCKED
    );
    IF stop_at IS NOT NULL THEN
        RETURN QUERY SELECT NULL::uuid, NULL::bigint, NULL::text, NULL::text, stop_at,
            worker.id || CASE WHEN any_left OR worker.id = ANY (stuck) THEN '+' ELSE '' END;
    END IF;
END
$$;
