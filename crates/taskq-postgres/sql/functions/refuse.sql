-- Raises TQ002 (invalid) or TQ003 (unsupported) with the index of the offending element as DETAIL.
-- Called by: every function that checks its arguments. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".refuse(problem text, element bigint DEFAULT NULL, code text DEFAULT 'TQ002')
RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF element IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = problem;
    END IF;
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = pg_catalog.format('element %s: %s', element, problem),
        DETAIL = element::text;
END
$$;
