-- Says of the queues which are paused, which let their lanes take turns, and which are in strict order but may have jobs
-- with a cohort; each NULL when there is none.
-- Called by: claim, claim_slots. Locks: none. Indexes: queues_pkey.
CREATE OR REPLACE FUNCTION "{schema}".queue_settings(
    queues text[], OUT paused text[], OUT turning text[], OUT mixed text[]
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    SELECT array_agg(q.queue) FILTER (WHERE q.paused_at IS NOT NULL), array_agg(q.queue) FILTER (WHERE q.mode = 'round_robin'),
        array_agg(q.queue) FILTER (WHERE q.cohorts AND q.mode = 'strict_fifo')
    INTO paused, turning, mixed
    FROM "{schema}".queues q WHERE q.queue = ANY (queues);
END
$$;
