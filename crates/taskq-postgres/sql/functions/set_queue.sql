-- Sets a queue's mode, strict_fifo or round_robin; `changed` says whether it was another before.
-- Called by: operators. Locks: the queue's row, then the merged jobs, SKIP LOCKED. Indexes: queues_pkey; see
-- merge_cohorts.
-- Claims read the mode each time, so workers follow with their next claim. In strict order a job has no cohort: ready
-- jobs that have one are merged into their actor's lane, at most `max_rows` a call; `more` asks for another call. Those
-- that become ready later are merged by the claims that meet them.
CREATE OR REPLACE FUNCTION "{schema}".set_queue(
    name text, mode text, max_rows integer DEFAULT 10000,
    OUT changed boolean, OUT merged bigint, OUT more boolean
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := "{schema}".clock_now();
BEGIN
    PERFORM "{schema}".check_lane_part('queue', name);
    PERFORM "{schema}".check_max_rows(max_rows);
    IF set_queue.mode IS NULL OR set_queue.mode NOT IN ('strict_fifo', 'round_robin') THEN
        PERFORM "{schema}".refuse('mode is neither "strict_fifo" nor "round_robin"');
    END IF;
    INSERT INTO "{schema}".queues (queue, updated_at) VALUES (name, now) ON CONFLICT (queue) DO NOTHING;
    UPDATE "{schema}".queues q
    SET mode = set_queue.mode, cohorts = q.cohorts OR set_queue.mode = 'round_robin', updated_at = now
    WHERE q.queue = name AND q.mode <> set_queue.mode;
    changed := FOUND;
    merged := 0;
    IF set_queue.mode = 'strict_fifo' AND (SELECT q.cohorts FROM "{schema}".queues q WHERE q.queue = name) THEN
        merged := "{schema}".merge_cohorts(name, NULL, max_rows);
    END IF;
    more := merged = max_rows;
    IF changed OR merged > 0 THEN
        PERFORM "{schema}".wake(ARRAY[name]);
    END IF;
END
$$;
