-- Makes ended jobs ready again: one row per id, in the order given; at most 10000 ids. For the outcomes see retry_ids.
-- Called by: operators. Locks and indexes: see retry_ids.
CREATE OR REPLACE FUNCTION "{schema}".retry(ids uuid[])
RETURNS TABLE (id uuid, outcome text, status text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM "{schema}".check_ids(ids);
    RETURN QUERY SELECT r.id, r.outcome, r.status FROM "{schema}".retry_ids(ids, NULL) r;
END
$$;
