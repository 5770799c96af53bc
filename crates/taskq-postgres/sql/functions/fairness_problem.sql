-- Says why a job of the queue cannot have a fairness_key: only a queue in round_robin mode takes turns. NULL when it can.
-- Called by: document_problem, enqueue_staged, for jobs that have one. Locks: none. Indexes: queues_pkey.
CREATE OR REPLACE FUNCTION "{schema}".fairness_problem(name text) RETURNS text
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    IF EXISTS (SELECT FROM "{schema}".queues q WHERE q.queue = name AND q.mode = 'round_robin') THEN
        RETURN NULL;
    END IF;
    RETURN format('fairness_key needs a queue in round_robin mode: taskq queue set %s --mode round_robin', name);
END
$$;
