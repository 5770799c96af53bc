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
DECLARE
    bad text;
BEGIN
    PERFORM "{schema}".check_max_rows(max_rows);
    IF filter IS NULL OR jsonb_typeof(filter) <> 'object' THEN
        PERFORM "{schema}".refuse('the filter is not a JSON object');
    END IF;
    SELECT k INTO bad FROM jsonb_object_keys(filter) k WHERE k NOT IN ('status', 'queue', 'actor', 'tag') LIMIT 1;
    IF bad IS NOT NULL THEN
        PERFORM "{schema}".refuse(format('the filter has the unknown field "%s"', left(bad, 255)));
    END IF;
    SELECT k INTO bad FROM unnest(ARRAY['queue', 'actor', 'tag']) k WHERE jsonb_typeof(filter -> k) <> 'string' LIMIT 1;
    IF bad IS NOT NULL THEN
        PERFORM "{schema}".refuse(format('%s of the filter is not a string', bad));
    END IF;
    IF filter ? 'status' THEN
        IF jsonb_typeof(filter -> 'status') <> 'array' THEN
            PERFORM "{schema}".refuse('status of the filter is not an array');
        END IF;
        IF filter -> 'status' = '[]' THEN
            PERFORM "{schema}".refuse('status of the filter is empty: leave it out to mean any');
        END IF;
        SELECT array_agg(s.word) INTO statuses FROM jsonb_array_elements_text(filter -> 'status') s(word);
        SELECT s.word INTO bad FROM unnest(statuses) s(word)
        WHERE s.word IS NULL OR s.word <> ALL (enum_range(NULL::"{schema}".job_status)::text[]) LIMIT 1;
        IF FOUND THEN
            PERFORM "{schema}".refuse(format('unknown status "%s"', left(bad, 255)));
        END IF;
    END IF;
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
