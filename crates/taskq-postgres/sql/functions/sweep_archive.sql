-- Moves finished jobs whose hot period is over to the archive, with their attempts, at most `max_rows` of those behind the
-- key `after_at`, `after_id`, the first that was due first. Returns how many, whether there may be more, how long until the
-- next behind the last one is due, and the last one's key.
-- Passed over and counted among the problems are jobs that the archive has already, jobs of a month whose partition is
-- not there and cannot be made, and rows that cannot be moved for any other reason.
-- Called by: the leader. Locks: the leader's row FOR KEY SHARE once something is due, the jobs, SKIP LOCKED; for a month
-- that begins, see make_archive_month. Indexes: jobs_finished_idx, jobs_archive_pkey.
CREATE OR REPLACE FUNCTION "{schema}".sweep_archive(
    leader uuid, leader_epoch bigint, max_rows integer, after_at timestamptz DEFAULT NULL, after_id uuid DEFAULT NULL
) RETURNS TABLE (swept bigint, more boolean, due_in interval, reached_at timestamptz, reached_id uuid, problems bigint, problem text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    from_at timestamptz := coalesce(after_at, '-infinity');
    from_id uuid := coalesce(after_id, '00000000-0000-0000-0000-000000000000');
    next_at timestamptz;
    month timestamptz;
    months timestamptz[];
    unmade timestamptz[];
    tids tid[];
    ids uuid[];
    finished timestamptz[];
    fit tid[];
    archived uuid[];
    found_problem text;
    told text;
    done record;
BEGIN
    PERFORM "{schema}".require_read_committed('sweep_archive');
    PERFORM "{schema}".check_max_rows(max_rows);
    PERFORM "{schema}".require_leader(leader, leader_epoch, false);
    SELECT j.prune_at INTO next_at FROM "{schema}".jobs j
    WHERE j.prune_at IS NOT NULL AND (j.prune_at, j.id) > (from_at, from_id)
    ORDER BY j.prune_at, j.id LIMIT 1;
    IF coalesce(next_at > "{schema}".clock(), true) THEN
        RETURN QUERY SELECT 0::bigint, false, next_at - "{schema}".clock(), after_at, after_id, 0::bigint, NULL::text;
        RETURN;
    END IF;
    PERFORM "{schema}".require_leader(leader, leader_epoch, true);
    SELECT array_agg(d.tid), array_agg(d.id), array_agg(d.finished_at), array_agg(DISTINCT "{schema}".archive_month(d.finished_at)),
        coalesce((array_agg(d.prune_at ORDER BY d.prune_at DESC, d.id DESC))[1], from_at),
        coalesce((array_agg(d.id ORDER BY d.prune_at DESC, d.id DESC))[1], from_id)
    INTO tids, ids, finished, months, from_at, from_id
    FROM (
        SELECT j.ctid AS tid, j.prune_at, j.id, j.finished_at FROM "{schema}".jobs j
        WHERE j.prune_at IS NOT NULL AND (j.prune_at, j.id) > (from_at, from_id) AND j.prune_at <= "{schema}".clock()
        ORDER BY j.prune_at, j.id
        LIMIT max_rows
        FOR UPDATE OF j SKIP LOCKED
    ) d;
    FOREACH month IN ARRAY coalesce(months, '{}') LOOP
        IF NOT "{schema}".has_archive_month(month) THEN
            told := "{schema}".make_archive_month(leader, leader_epoch, month);
            IF told IS NOT NULL THEN
                unmade := unmade || month;
                found_problem := coalesce(found_problem, told);
            END IF;
        END IF;
    END LOOP;
    -- The primary key holds the time as well, so it lets an id be there more than once.
    archived := "{schema}".archived_ids(ids);
    IF archived IS NOT NULL THEN
        found_problem := coalesce(found_problem, format('job %s: the archive has a job of this id already', archived[1]));
    END IF;
    fit := tids;
    IF found_problem IS NOT NULL THEN
        SELECT array_agg(u.tid) INTO fit FROM unnest(tids, ids, finished) u(tid, id, finished_at)
        WHERE u.id <> ALL (coalesce(archived, '{}'))
            AND ("{schema}".archive_month(u.finished_at) <> ALL (coalesce(unmade, '{}'))) IS NOT FALSE;
    END IF;
    SELECT r.swept, r.problems, r.problem INTO done FROM "{schema}".archive_rows(fit, "{schema}".clock_now()) r;
    SELECT j.prune_at INTO next_at FROM "{schema}".jobs j
    WHERE j.prune_at IS NOT NULL AND (j.prune_at, j.id) > (from_at, from_id)
    ORDER BY j.prune_at, j.id LIMIT 1;
    RETURN QUERY SELECT done.swept, coalesce(cardinality(tids) = max_rows, false),
        CASE WHEN next_at IS NOT NULL THEN greatest(next_at - "{schema}".clock_now(), interval '0') END,
        CASE WHEN tids IS NULL THEN after_at ELSE from_at END, CASE WHEN tids IS NULL THEN after_id ELSE from_id END,
        coalesce(cardinality(tids), 0) - done.swept, coalesce(found_problem, done.problem);
END
$$;
