-- Merges ready jobs of a queue that have a cohort into the lanes of their actors (all of them, or those given), at most
-- `max_rows`; returns how many, and wakes the workers to look again when there may be more. For queues in strict order, where a job that has a cohort would not be found.
-- Called by: set_queue, claim, claim_slots. Locks: the jobs, SKIP LOCKED. Indexes: jobs_ready_idx.
-- One probe for each actor: where the jobs without a cohort end, those that have one begin.
CREATE OR REPLACE FUNCTION "{schema}".merge_cohorts(name text, actors text[], max_rows integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    tids tid[];
BEGIN
    IF actors IS NULL THEN
        WITH RECURSIVE found AS (
            (
                SELECT j.actor FROM "{schema}".jobs j
                WHERE j.queue = name AND j.status = 'pending'
                ORDER BY j.actor, j.cohort, j.priority DESC, j.scheduled_at, j.id
                LIMIT 1
            )
            UNION ALL
            SELECT n.actor
            FROM found f
            CROSS JOIN LATERAL (
                SELECT j.actor FROM "{schema}".jobs j
                WHERE j.queue = name AND j.actor > f.actor AND j.status = 'pending'
                ORDER BY j.actor, j.cohort, j.priority DESC, j.scheduled_at, j.id
                LIMIT 1
            ) n
        )
        SELECT array_agg(f.actor) INTO actors FROM found f;
    END IF;
    -- The outer limit ends the loop over the actors, so no row is locked that is not merged.
    SELECT array_agg(t.tid) INTO tids
    FROM (
        SELECT t.tid
        FROM unnest(actors) a(actor)
        CROSS JOIN LATERAL (
            SELECT j.ctid AS tid FROM "{schema}".jobs j
            WHERE j.queue = name AND j.actor = a.actor AND j.cohort > '' AND j.status = 'pending'
            ORDER BY j.cohort, j.priority DESC, j.scheduled_at, j.id
            LIMIT max_rows
            FOR NO KEY UPDATE OF j SKIP LOCKED
        ) t
        LIMIT max_rows
    ) t;
    IF tids IS NULL THEN
        RETURN 0;
    END IF;
    UPDATE "{schema}".jobs j SET cohort = '' WHERE j.ctid = ANY (tids);
    IF cardinality(tids) = max_rows THEN
        PERFORM "{schema}".wake(ARRAY[name]);
    END IF;
    RETURN cardinality(tids);
END
$$;
