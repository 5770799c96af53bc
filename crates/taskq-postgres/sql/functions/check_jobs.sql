-- Raises TQ002 or TQ003 with its index as DETAIL for the first job document that cannot be enqueued.
-- Called by: enqueue_many. Locks: none. Indexes: those of document_problem.
CREATE OR REPLACE FUNCTION "{schema}".check_jobs(jobs jsonb, now timestamptz) RETURNS void
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    bad record;
BEGIN
    IF jobs IS NULL OR jsonb_typeof(jobs) <> 'array' THEN
        PERFORM "{schema}".refuse(format('jobs is %s, not a JSON array', coalesce('a JSON ' || jsonb_typeof(jobs), 'null')));
    END IF;
    SELECT d.nth - 1 AS element, p.problem, p.code INTO bad
    FROM jsonb_array_elements(jobs) WITH ORDINALITY d(job, nth)
    CROSS JOIN LATERAL "{schema}".document_problem(d.job, now) p
    WHERE "{schema}".obviously_valid(d.job) IS NOT TRUE AND p.problem IS NOT NULL
    LIMIT 1;
    IF FOUND THEN
        PERFORM "{schema}".refuse(bad.problem, bad.element, bad.code);
    END IF;
END
$$;
