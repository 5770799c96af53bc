-- Lists the ids of jobs that match a filter, above `after`, in their order, at most `max_rows` of them, and looks at no
-- more than `max_rows` * 10 rows for it: `scanned_to` is where the next call goes on, NULL at the end. `statuses` are the
-- filter's, to be tested again once the rows are locked.
-- Called by: cancel_matching, retry_matching. Locks: none. Indexes: jobs_pkey.
-- A filter is {"status"?: [..], "queue"?, "actor"?, "tag"?}.
CREATE OR REPLACE FUNCTION "{schema}".matching(
    filter jsonb, max_rows integer, after uuid, OUT ids uuid[], OUT scanned_to uuid, OUT statuses text[]
)
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
BEGIN
    PERFORM "{schema}".check_max_rows(max_rows);
    statuses := "{schema}".filter_statuses(filter);
    SELECT array_agg(w.id ORDER BY w.id) FILTER (WHERE w.hits AND w.hit_nth <= max_rows),
        CASE WHEN count(*) = max_rows * 10 OR count(*) FILTER (WHERE w.hits) >= max_rows THEN
            coalesce((array_agg(w.id ORDER BY w.id) FILTER (WHERE w.hits AND w.hit_nth = max_rows))[1], max(w.id::text)::uuid) END
    INTO ids, scanned_to
    FROM (
        SELECT s.id, s.hits, count(*) FILTER (WHERE s.hits) OVER (ORDER BY s.id) AS hit_nth
        FROM (
            SELECT j.id, (statuses IS NULL OR j.status::text = ANY (statuses))
                AND (NOT filter ? 'queue' OR j.queue = filter ->> 'queue')
                AND (NOT filter ? 'actor' OR j.actor = filter ->> 'actor')
                AND (NOT filter ? 'tag' OR coalesce(filter ->> 'tag' = ANY (j.tags), false)) AS hits
            FROM "{schema}".jobs j
            WHERE j.id > coalesce(after, '00000000-0000-0000-0000-000000000000')
            ORDER BY j.id
            LIMIT max_rows * 10
        ) s
    ) w;
END
$$;
