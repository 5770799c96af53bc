-- The statuses that a filter names, NULL when any will do. Raises TQ002 for what is no filter.
-- Called by: matching, prune. Locks: none. Indexes: none.
-- A filter is {"status"?: [..], "queue"?, "actor"?, "tag"?}.
CREATE OR REPLACE FUNCTION "{schema}".filter_statuses(filter jsonb) RETURNS text[]
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    bad text;
    statuses text[];
BEGIN
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
    RETURN statuses;
END
$$;
