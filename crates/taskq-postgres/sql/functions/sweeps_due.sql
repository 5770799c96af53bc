-- Says which sweeps have something to do: one row per element of `probes`, which name a sweep and where to look. One call
-- for all idle sweeps.
-- `due_in` is how long until the sweep has something to do (zero: now; NULL: nothing waits), `behind` how long the oldest
-- has waited for it, `clear_to` a time before which nothing lives in the sweep's order (NULL: it has none), `took` how long
-- this sweep's question took, `batch` the size of its batches where a setting governs it, `problem` what is wrong with a
-- setting of its.
-- A probe is {"sweep", "from": "start"|"last_note"|"key", "at", "id", "period", "batch"}; the last two stand instead of settings.
-- Called by: the leader, when it wakes. Locks: none. Indexes: each sweep's own, read behind the place that is named;
-- workers are few. Writes nothing.
CREATE OR REPLACE FUNCTION "{schema}".sweeps_due(leader uuid, leader_epoch bigint, probes jsonb)
RETURNS TABLE (
    sweep text, due_in interval, behind interval, clear_to timestamptz, took interval, batch integer, problem text
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := "{schema}".clock();
    probe jsonb;
    began timestamptz;
    head record;
BEGIN
    PERFORM "{schema}".require_leader(leader, leader_epoch, false);
    FOR probe IN SELECT p.probe FROM jsonb_array_elements(probes) p(probe) LOOP
        began := clock_timestamp();
        SELECT h.due_at, h.clear_to, h.batch, h.problem INTO head FROM "{schema}".sweep_head(probe) h;
        RETURN QUERY SELECT probe ->> 'sweep', CASE WHEN head.due_at IS NOT NULL THEN greatest(head.due_at - now, interval '0') END,
            coalesce(greatest(now - head.due_at, interval '0'), interval '0'), head.clear_to,
            greatest(clock_timestamp() - began, interval '0'), head.batch, head.problem;
    END LOOP;
END
$$;
