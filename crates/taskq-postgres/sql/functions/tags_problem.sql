-- Says what is wrong with the tags of a job document, or NULL.
-- Called by: document_problem, for documents that carry some. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".tags_problem(tags jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF jsonb_typeof(tags) <> 'array' THEN
        RETURN format('tags is a JSON %s, not an array', jsonb_typeof(tags));
    ELSIF jsonb_array_length(tags) > 64 THEN
        RETURN format('tags has %s entries, more than 64', jsonb_array_length(tags));
    END IF;
    RETURN (
        SELECT p.problem
        FROM jsonb_array_elements(tags) t(tag)
        CROSS JOIN LATERAL (SELECT CASE
            WHEN jsonb_typeof(t.tag) <> 'string' THEN format('a tag is a JSON %s, not a string', jsonb_typeof(t.tag))
            ELSE "{schema}".name_problem('a tag', t.tag #>> '{}') END AS problem) p
        WHERE p.problem IS NOT NULL
        LIMIT 1
    );
END
$$;
