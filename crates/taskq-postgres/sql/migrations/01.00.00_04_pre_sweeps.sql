-- What the leader's sweeps need: a place to tell what they did, how far a lost worker is dealt with, and a feed of events.

-- How each sweep stands: one row per sweep that ever did something, written by the leader now and then.
CREATE TABLE "{schema}".sweeps (
    sweep         text COLLATE "C" NOT NULL,
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
    -- What the leader's process sets instead of the table settings.
    overrides     jsonb,
    CONSTRAINT sweeps_pkey PRIMARY KEY (sweep)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0.02);

-- Set once every job has been taken from a lost worker, which no job can come to run under again.
ALTER TABLE "{schema}".workers ADD COLUMN reclaimed_at timestamptz;

-- Their answers have more columns now, and that cannot be replaced.
DROP FUNCTION IF EXISTS "{schema}".promote(uuid, bigint, integer);
DROP FUNCTION IF EXISTS "{schema}".mark_lost(uuid, bigint, integer);
DROP FUNCTION IF EXISTS "{schema}".forget_workers(uuid, bigint, integer);
DROP FUNCTION IF EXISTS "{schema}".sweeps_due(uuid, bigint);
