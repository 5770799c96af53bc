-- Cancels jobs: one row per id, in the order given; at most 10000 ids. For the outcomes see cancel_ids.
-- Called by: clients, operators. Locks and indexes: see cancel_ids.
CREATE OR REPLACE FUNCTION "{schema}".cancel(ids uuid[], reason text DEFAULT NULL)
RETURNS TABLE (id uuid, outcome text, status text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM "{schema}".check_ids(ids);
    RETURN QUERY SELECT c.id, c.outcome, c.status FROM "{schema}".cancel_ids(ids, reason, NULL) c;
END
$$;
