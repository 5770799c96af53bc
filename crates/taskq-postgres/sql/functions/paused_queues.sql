-- Returns those of the queues that are paused; NULL when none is.
-- Called by: claim, claim_slots. Locks: none. Indexes: queues_pkey.
CREATE OR REPLACE FUNCTION "{schema}".paused_queues(queues text[]) RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN (SELECT array_agg(q.queue) FROM "{schema}".queues q WHERE q.queue = ANY (queues) AND q.paused_at IS NOT NULL);
END
$$;
