-- Deletes for good the jobs that match a filter and ended at least `older_than` ago, on both sides, with their attempts: one
-- bounded batch a call, in the order of ids; go on with `after` = `scanned_to` until it is NULL. Looks at no more than
-- `max_rows` * 10 rows. Returns how many jobs were deleted, how many of them were archived; with `dry_run` how many would be.
-- Called by: operators. Locks: the jobs of the batch, in the order of their ids. Indexes: jobs_pkey, jobs_archive_pkey of the
-- partitions that can hold one that old, job_attempts_pkey, job_attempts_archive_pkey.
-- A filter is that of `matching`. Idempotency keys stay until they expire, so what they answer names a job that is gone.
CREATE OR REPLACE FUNCTION "{schema}".prune(
    filter jsonb, older_than interval, max_rows integer, after uuid DEFAULT NULL, dry_run boolean DEFAULT false,
    OUT pruned bigint, OUT archived bigint, OUT scanned_to uuid
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    statuses text[] := "{schema}".filter_statuses(filter);
    unfit text;
    horizon timestamptz;
    month_end timestamptz;
    ids uuid[];
    archived_ids uuid[];
    gone uuid[];
    times timestamptz[];
BEGIN
    PERFORM "{schema}".check_max_rows(max_rows);
    IF older_than IS NULL OR older_than < interval '0' OR older_than > interval '36600 days' THEN
        PERFORM "{schema}".refuse('older_than is not between 0 and 36600 days');
    END IF;
    SELECT s.word INTO unfit FROM unnest(statuses) s(word) WHERE s.word IN ('scheduled', 'blocked', 'pending', 'running') LIMIT 1;
    IF FOUND THEN
        PERFORM "{schema}".refuse(format('jobs that are %s have not ended', unfit));
    END IF;
    horizon := "{schema}".clock() - older_than;
    month_end := ("{schema}".archive_month(horizon) AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC';
    SELECT array_agg(w.id) FILTER (WHERE w.hits AND w.hit_nth <= max_rows AND NOT w.is_archived),
        array_agg(w.id) FILTER (WHERE w.hits AND w.hit_nth <= max_rows AND w.is_archived),
        CASE WHEN count(*) >= max_rows::bigint * 10 OR count(*) FILTER (WHERE w.hits) >= max_rows THEN
            coalesce((array_agg(w.id ORDER BY w.nth) FILTER (WHERE w.hits AND w.hit_nth = max_rows))[1], max(w.id::text)::uuid) END
    INTO ids, archived_ids, scanned_to
    FROM (
        SELECT s.id, s.is_archived, s.hits, row_number() OVER o AS nth, count(*) FILTER (WHERE s.hits) OVER o AS hit_nth
        FROM (
            SELECT b.id, b.is_archived, (b.finished_at <= horizon AND (statuses IS NULL OR b.status::text = ANY (statuses))
                AND (NOT filter ? 'queue' OR b.queue = filter ->> 'queue')
                AND (NOT filter ? 'actor' OR b.actor = filter ->> 'actor')
                AND (NOT filter ? 'tag' OR coalesce(filter ->> 'tag' = ANY (b.tags), false))) IS TRUE AS hits
            FROM (
                (
                    SELECT j.id, false AS is_archived, j.finished_at, j.status, j.queue, j.actor, j.tags
                    FROM "{schema}".jobs j
                    WHERE j.id > coalesce(after, '00000000-0000-0000-0000-000000000000')
                    ORDER BY j.id LIMIT max_rows::bigint * 10
                )
                UNION ALL
                (
                    -- By whole months, so that no partition is read for nothing.
                    SELECT a.id, true, a.finished_at, a.status, a.queue, a.actor, a.tags
                    FROM "{schema}".jobs_archive a
                    WHERE a.id > coalesce(after, '00000000-0000-0000-0000-000000000000') AND a.finished_at < month_end
                    ORDER BY a.id LIMIT max_rows::bigint * 10
                )
            ) b
            ORDER BY b.id, b.is_archived LIMIT max_rows::bigint * 10
        ) s
        WINDOW o AS (ORDER BY s.id, s.is_archived)
    ) w;
    pruned := coalesce(cardinality(ids), 0) + coalesce(cardinality(archived_ids), 0);
    archived := coalesce(cardinality(archived_ids), 0);
    IF dry_run THEN
        RETURN;
    END IF;
    pruned := 0;
    archived := 0;
    IF ids IS NOT NULL THEN
        -- Looked at again once they are locked: one may have been retried.
        SELECT array_agg(l.id) INTO gone
        FROM (
            SELECT j.id FROM "{schema}".jobs j
            WHERE j.id = ANY (ids) AND j.finished_at <= horizon AND (statuses IS NULL OR j.status::text = ANY (statuses))
            ORDER BY j.id FOR UPDATE OF j
        ) l;
        DELETE FROM "{schema}".job_attempts a WHERE a.job_id = ANY (gone);
        DELETE FROM "{schema}".jobs j WHERE j.id = ANY (gone);
        GET DIAGNOSTICS pruned = ROW_COUNT;
    END IF;
    IF archived_ids IS NOT NULL THEN
        SELECT array_agg(l.id), array_agg(l.finished_at) INTO gone, times
        FROM (
            SELECT a.id, a.finished_at FROM "{schema}".jobs_archive a
            WHERE a.id = ANY (archived_ids) AND a.finished_at <= horizon
            ORDER BY a.id FOR UPDATE OF a
        ) l;
        DELETE FROM "{schema}".job_attempts_archive a USING unnest(gone, times) u(id, finished_at)
        WHERE a.job_id = u.id AND a.job_finished_at = u.finished_at;
        DELETE FROM "{schema}".jobs_archive a USING unnest(gone, times) u(id, finished_at)
        WHERE a.id = u.id AND a.finished_at = u.finished_at;
        GET DIAGNOSTICS archived = ROW_COUNT;
        pruned := pruned + archived;
    END IF;
END
$$;
