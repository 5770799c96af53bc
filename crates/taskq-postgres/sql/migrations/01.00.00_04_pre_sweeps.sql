-- What the leader's sweeps need: a place to tell what they did, how far a lost worker is dealt with, and a feed of events.

-- How each sweep stands: one row per sweep that ever did something, written by the leader now and then.
CREATE TABLE "{schema}".sweeps (
    sweep         text COLLATE "C" NOT NULL,
    -- The leader that wrote it.
    epoch         bigint NOT NULL,
    last_run_at   timestamptz,
    duration      interval,
    rows          bigint NOT NULL DEFAULT 0,
    swept         bigint NOT NULL DEFAULT 0,
    batch         integer,
    -- Where the next leader goes on.
    reached_at    timestamptz,
    reached_id    text COLLATE "C",
    last_error    text,
    last_error_at timestamptz,
    -- What that leader's process sets instead of the table settings.
    overrides     jsonb,
    CONSTRAINT sweeps_pkey PRIMARY KEY (sweep)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0.02);

-- Set once every job has been taken from a lost worker, which no job can come to run under again.
ALTER TABLE "{schema}".workers ADD COLUMN reclaimed_at timestamptz;

-- Jobs that have not started and must by a time. A job without a deadline is in no such index.
CREATE INDEX jobs_deadline_idx ON "{schema}".jobs (schedule_to_close, id)
    WHERE schedule_to_close IS NOT NULL AND status IN ('scheduled', 'blocked', 'pending');

-- Results that are kept for a time. The stamp stays when the result is gone, and says when it went.
CREATE INDEX jobs_result_expiry_idx ON "{schema}".jobs (result_expires_at, id)
    WHERE result_expires_at IS NOT NULL AND result IS NOT NULL;

-- Running jobs that may not take longer than so long, by worker and by when they are overdue. Counted from a fixed
-- time, since only that is immutable.
CREATE INDEX jobs_overdue_idx ON "{schema}".jobs
    (locked_by_worker, ((started_at - timestamptz '2000-01-01 00:00:00+00') + start_to_close))
    WHERE status = 'running' AND start_to_close IS NOT NULL;

-- The order in which events are told: behind everything that is committed, so that nothing appears behind a reader.
-- As the primary key it costs no index more than the id alone did.
ALTER TABLE "{schema}".job_events
    DROP CONSTRAINT job_events_pkey,
    ADD CONSTRAINT job_events_pkey PRIMARY KEY (xid, id);

-- Their answers have more columns now, and that cannot be replaced.
DROP FUNCTION IF EXISTS "{schema}".promote(uuid, bigint, integer);
DROP FUNCTION IF EXISTS "{schema}".mark_lost(uuid, bigint, integer);
DROP FUNCTION IF EXISTS "{schema}".forget_workers(uuid, bigint, integer);
DROP FUNCTION IF EXISTS "{schema}".sweeps_due(uuid, bigint);
