-- What each kind of role may do: every function that it may call, every table that it may read. No role may write a table:
-- whatever changes one is a function that runs with its owner's rights (SECURITY DEFINER) under a fixed search path.
-- What is not listed is the owner's alone; a function or table of a kind's own that is missing here is met by the tests.
-- Called by: grant_role, revoke_role; the Rust store reads this text to say which role would do. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".rights() RETURNS TABLE (object text, name text, kinds text[])
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    VALUES
    -- Enqueue.
    ('function', 'enqueue', '{enqueue-only,operator,worker}'::text[]),
    ('function', 'enqueue_keyed', '{enqueue-only,operator,worker}'),
    ('function', 'enqueue_many', '{enqueue-only,operator,worker}'),
    ('function', 'enqueue_plain', '{enqueue-only,operator,worker}'),
    ('function', 'enqueue_staged', '{enqueue-only,operator,worker}'),
    ('function', 'prepare_staging', '{enqueue-only,operator,worker}'),
    -- Read.
    ('function', 'clock', '{operator,read-only,worker}'),
    ('function', 'event_horizon', '{operator,read-only,worker}'),
    ('function', 'setting_problem', '{operator,read-only,worker}'),
    ('function', 'sweep_backlog', '{operator,read-only,worker}'),
    ('function', 'sweep_head', '{operator,read-only,worker}'),
    ('table', 'actor_config', '{operator,read-only,worker}'),
    ('table', 'cancel_requests', '{operator,read-only,worker}'),
    ('table', 'hooks', '{operator,read-only,worker}'),
    ('table', 'idempotency_keys', '{operator,read-only,worker}'),
    ('table', 'job_attempts', '{operator,read-only,worker}'),
    ('table', 'job_attempts_archive', '{operator,read-only,worker}'),
    ('table', 'job_events', '{operator,read-only,worker}'),
    ('table', 'jobs', '{operator,read-only,worker}'),
    ('table', 'jobs_archive', '{operator,read-only,worker}'),
    ('table', 'leader', '{operator,read-only,worker}'),
    ('table', 'queues', '{operator,read-only,worker}'),
    ('table', 'restamp', '{operator,read-only,worker}'),
    ('table', 'settings', '{operator,read-only,worker}'),
    ('table', 'sweeps', '{operator,read-only,worker}'),
    ('table', 'workers', '{operator,read-only,worker}'),
    -- Whether the schema fits, and what the role is.
    ('table', 'granted_roles', '{enqueue-only,operator,read-only,worker}'),
    ('table', 'schema_migrations', '{enqueue-only,operator,read-only,worker}'),
    -- Decide what becomes of jobs and lanes.
    ('function', 'cancel', '{operator,worker}'),
    ('function', 'cancel_matching', '{operator,worker}'),
    ('function', 'pause', '{operator,worker}'),
    ('function', 'resume', '{operator,worker}'),
    ('function', 'retry', '{operator,worker}'),
    ('function', 'retry_matching', '{operator,worker}'),
    -- Decide how the system works.
    ('function', 'prune', '{operator}'),
    ('function', 'set_actor', '{operator}'),
    ('function', 'set_queue', '{operator}'),
    ('function', 'set_setting', '{operator}'),
    -- Run jobs.
    ('function', 'claim', '{worker}'),
    ('function', 'claim_slots', '{worker}'),
    ('function', 'complete', '{worker}'),
    ('function', 'heartbeat', '{worker}'),
    ('function', 'held', '{worker}'),
    ('function', 'hold_hook', '{worker}'),
    ('function', 'register_worker', '{worker}'),
    ('function', 'release_worker', '{worker}'),
    ('function', 'settle', '{worker}'),
    ('function', 'settle_batch', '{worker}'),
    -- Lead.
    ('function', 'expire_archive', '{worker}'),
    ('function', 'forget_keys', '{worker}'),
    ('function', 'forget_workers', '{worker}'),
    ('function', 'mark_lost', '{worker}'),
    ('function', 'note_sweeps', '{worker}'),
    ('function', 'promote', '{worker}'),
    ('function', 'reclaim', '{worker}'),
    ('function', 'sweep_archive', '{worker}'),
    ('function', 'sweep_deadlines', '{worker}'),
    ('function', 'sweep_events', '{worker}'),
    ('function', 'sweep_restamp', '{worker}'),
    ('function', 'sweep_results', '{worker}'),
    ('function', 'sweeps_due', '{worker}')
$$;
