-- Finds the first outcome document that cannot be settled: its index and what is wrong.
-- Called by: settle. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".outcome_problem(outcomes jsonb, OUT element bigint, OUT problem text)
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    SELECT d.nth - 1, p.problem INTO element, problem
    FROM jsonb_array_elements(outcomes) WITH ORDINALITY d(doc, nth)
    CROSS JOIN LATERAL (SELECT CASE
        WHEN jsonb_typeof(d.doc) <> 'object' THEN format('a JSON %s, not an object', jsonb_typeof(d.doc))
        WHEN coalesce(jsonb_typeof(d.doc -> 'id') <> 'string', true) OR d.doc ->> 'id'
            !~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' THEN 'id is not a UUID'
        WHEN coalesce(jsonb_typeof(d.doc -> 'epoch') <> 'number', true) THEN 'epoch is not a number'
        WHEN (d.doc -> 'epoch')::numeric <> trunc((d.doc -> 'epoch')::numeric)
            OR (d.doc -> 'epoch')::numeric NOT BETWEEN -9223372036854775808 AND 9223372036854775807 THEN 'epoch is out of range'
        ELSE "{schema}".detail_problem(d.doc ->> 'outcome', nullif(d.doc - ARRAY['id', 'epoch', 'outcome'], '{}'))
        END AS problem) p
    WHERE p.problem IS NOT NULL
    LIMIT 1;
END
$$;
