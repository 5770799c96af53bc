-- Raises TQ002 or TQ003 with its index as DETAIL for the first staged job that cannot be enqueued, as check_jobs does for
-- documents.
-- Called by: enqueue_staged, when not all of its jobs are plain. Locks: none. Indexes: those of document_problem.
CREATE OR REPLACE FUNCTION "{schema}".check_staged(now timestamptz) RETURNS void
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    bad record;
BEGIN
    SELECT d.nth - 1 AS element, p.problem, p.code INTO bad
    FROM "{schema}".staged_documents() d
    CROSS JOIN LATERAL "{schema}".document_problem(d.job, now) p
    WHERE p.problem IS NOT NULL
    ORDER BY d.nth
    LIMIT 1;
    IF FOUND THEN
        PERFORM "{schema}".refuse(bad.problem, bad.element, bad.code);
    END IF;
END
$$;
