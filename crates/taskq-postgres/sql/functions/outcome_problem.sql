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
        WHEN d.doc - ARRAY['id', 'epoch', 'outcome', 'result', 'error', 'delay', 'final'] <> '{}' THEN (
            SELECT format('unknown field "%s"', left(k, 255))
            FROM jsonb_object_keys(d.doc - ARRAY['id', 'epoch', 'outcome', 'result', 'error', 'delay', 'final']) k LIMIT 1)
        WHEN coalesce(jsonb_typeof(d.doc -> 'id') <> 'string', true) OR d.doc ->> 'id'
            !~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' THEN 'id is not a UUID'
        WHEN coalesce(jsonb_typeof(d.doc -> 'epoch') <> 'number', true) THEN 'epoch is not a number'
        WHEN (d.doc -> 'epoch')::numeric <> trunc((d.doc -> 'epoch')::numeric)
            OR (d.doc -> 'epoch')::numeric NOT BETWEEN 0 AND 9223372036854775807 THEN 'epoch is out of range'
        WHEN coalesce(d.doc ->> 'outcome' NOT IN ('succeeded', 'failed', 'snoozed', 'cancelled', 'released', 'abandoned'), true)
            THEN 'outcome is not one of succeeded, failed, snoozed, cancelled, released, abandoned'
        WHEN d.doc ? 'result' AND d.doc ->> 'outcome' <> 'succeeded' THEN 'result belongs to succeeded'
        WHEN d.doc ? 'error' AND d.doc ->> 'outcome' NOT IN ('failed', 'cancelled', 'abandoned') THEN 'error belongs to failed, cancelled or abandoned'
        WHEN d.doc ? 'delay' AND d.doc ->> 'outcome' NOT IN ('failed', 'snoozed') THEN 'delay belongs to failed or snoozed'
        WHEN d.doc ? 'final' AND d.doc ->> 'outcome' <> 'failed' THEN 'final belongs to failed'
        WHEN jsonb_typeof(d.doc -> 'final') NOT IN ('boolean', 'null') THEN 'final is not a boolean'
        WHEN jsonb_typeof(d.doc -> 'error') NOT IN ('object', 'null') THEN 'error is not an object'
        WHEN (d.doc -> 'error') - ARRAY['class', 'message', 'backtrace'] <> '{}' THEN 'error has an unknown field'
        WHEN jsonb_typeof(d.doc #> '{error,class}') NOT IN ('string', 'null')
            OR jsonb_typeof(d.doc #> '{error,message}') NOT IN ('string', 'null')
            OR jsonb_typeof(d.doc #> '{error,backtrace}') NOT IN ('string', 'null')
            THEN 'a field of error is not a string'
        WHEN octet_length((d.doc -> 'result')::text) > 1048576
            THEN format('result has %s bytes, more than 1048576', octet_length((d.doc -> 'result')::text))
        WHEN d.doc ->> 'outcome' = 'snoozed' AND coalesce(jsonb_typeof(d.doc -> 'delay'), 'null') = 'null'
            THEN 'snoozed needs a delay'
        WHEN d.doc ? 'delay' THEN "{schema}".delay_problem(d.doc -> 'delay')
        END AS problem) p
    WHERE p.problem IS NOT NULL
    LIMIT 1;
END
$$;
