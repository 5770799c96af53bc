-- Cancels the unfinished jobs that match a filter, one bounded batch a call: go on with `after` = `scanned_to` until it is
-- NULL. Called by: operators. Locks: the jobs, in the order of their ids. Indexes: jobs_pkey.
CREATE OR REPLACE FUNCTION "{schema}".cancel_matching(
    filter jsonb, max_rows integer, after uuid DEFAULT NULL, reason text DEFAULT NULL
) RETURNS TABLE (cancelled bigint, requested bigint, scanned_to uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    found record;
BEGIN
    SELECT m.ids, m.scanned_to, m.statuses INTO found FROM "{schema}".matching(filter, max_rows, after) m;
    RETURN QUERY
        SELECT count(*) FILTER (WHERE c.outcome = 'cancelled'), count(*) FILTER (WHERE c.outcome = 'requested'), found.scanned_to
        FROM "{schema}".cancel_ids(coalesce(found.ids, '{}'), reason, found.statuses) c;
END
$$;
