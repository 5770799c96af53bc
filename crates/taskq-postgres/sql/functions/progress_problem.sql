-- Finds the first note of progress that cannot be stored: its index and what is wrong.
-- Called by: heartbeat. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".progress_problem(notes jsonb, OUT element bigint, OUT problem text)
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    SELECT d.nth - 1, p.problem INTO element, problem
    FROM jsonb_array_elements(notes) WITH ORDINALITY d(doc, nth)
    CROSS JOIN LATERAL (SELECT CASE
        WHEN jsonb_typeof(d.doc) <> 'object' THEN format('a JSON %s, not an object', jsonb_typeof(d.doc))
        WHEN d.doc - ARRAY['id', 'epoch', 'progress'] <> '{}' THEN 'unknown field'
        WHEN coalesce(jsonb_typeof(d.doc -> 'id') <> 'string', true) OR d.doc ->> 'id'
            !~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' THEN 'id is not a UUID'
        WHEN coalesce(jsonb_typeof(d.doc -> 'epoch') <> 'number', true) THEN 'epoch is not a number'
        WHEN (d.doc -> 'epoch')::numeric <> trunc((d.doc -> 'epoch')::numeric)
            OR (d.doc -> 'epoch')::numeric NOT BETWEEN -9223372036854775808 AND 9223372036854775807 THEN 'epoch is out of range'
        WHEN NOT d.doc ? 'progress' THEN 'progress is missing'
        WHEN "{schema}".json_bytes(d.doc -> 'progress', 65536) > 65536
            THEN format('progress has %s bytes, more than 65536', "{schema}".json_bytes(d.doc -> 'progress', 65536))
        END AS problem) p
    WHERE p.problem IS NOT NULL
    LIMIT 1;
END
$$;
