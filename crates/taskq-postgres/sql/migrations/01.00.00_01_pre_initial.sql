-- The first tables: jobs with their attempts and events, queues, workers, the leader, settings.
--
-- Index budget: a plain job writes six index entries in its life (insert: primary key, ready; claim: primary
-- key, running; settle: primary key, finished). Every other index is partial on the feature that it serves.
--
-- Columns that a claim or a settle changes stand together, between those that never change: an update then
-- logs only the bytes between the common prefix and the common suffix of the two row versions.

CREATE TYPE "{schema}".job_status AS ENUM (
    'scheduled', 'blocked', 'pending', 'running', 'succeeded', 'failed', 'cancelled', 'crashed', 'abandoned'
);

CREATE TABLE "{schema}".jobs (
    id                uuid NOT NULL,
    created_at        timestamptz NOT NULL,
    priority          smallint NOT NULL DEFAULT 0,
    max_attempts      smallint NOT NULL DEFAULT 20,
    payload_version   integer NOT NULL DEFAULT 1,
    -- from here: what a job's life changes
    scheduled_at      timestamptz NOT NULL,
    claim_epoch       bigint NOT NULL DEFAULT 0,
    status            "{schema}".job_status NOT NULL,
    attempt           integer NOT NULL DEFAULT 0,
    locked_by_worker  uuid,
    started_at        timestamptz,
    finished_at       timestamptz,
    prune_at          timestamptz,
    cancel_phase      smallint,
    progress_seq      bigint,
    result_expires_at timestamptz,
    error             jsonb,
    progress          jsonb,
    result            jsonb,
    blocked_by        uuid,
    -- from here: what it does not
    queue             text COLLATE "C" NOT NULL,
    actor             text COLLATE "C" NOT NULL,
    cohort            text COLLATE "C" NOT NULL DEFAULT '',
    payload           jsonb NOT NULL,
    schedule_to_close timestamptz,
    start_to_close    interval,
    retry_policy      jsonb,
    fairness_key      text COLLATE "C",
    identity_key      text COLLATE "C",
    unique_key        text COLLATE "C",
    limited           boolean,
    keep              text COLLATE "C",
    trace_context     text COLLATE "C",
    metadata          jsonb,
    tags              text[] COLLATE "C",
    batch_id          uuid,
    parent_id         uuid,
    CONSTRAINT jobs_pkey PRIMARY KEY (id),
    CONSTRAINT jobs_max_attempts_check CHECK (max_attempts >= 1),
    CONSTRAINT jobs_running_check CHECK (status <> 'running' OR (locked_by_worker IS NOT NULL AND started_at IS NOT NULL)),
    CONSTRAINT jobs_finished_check CHECK ((finished_at IS NOT NULL) =
        (status IN ('succeeded', 'failed', 'cancelled', 'crashed', 'abandoned')))
) WITH (
    -- Room for the next version of a row on its own page; see docs/design/storage.md.
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02,
    -- Giving pages back takes an exclusive lock that every claim would wait behind.
    vacuum_truncate = off
);

CREATE INDEX jobs_ready_idx ON "{schema}".jobs (queue, actor, cohort, priority DESC, scheduled_at, id)
    WHERE status = 'pending';
CREATE INDEX jobs_running_idx ON "{schema}".jobs (locked_by_worker, started_at) WHERE status = 'running';
CREATE INDEX jobs_finished_idx ON "{schema}".jobs (prune_at, id) WHERE prune_at IS NOT NULL;
CREATE INDEX jobs_scheduled_idx ON "{schema}".jobs (scheduled_at, id) WHERE status = 'scheduled';
CREATE INDEX jobs_unsuccessful_idx ON "{schema}".jobs (status, id)
    WHERE status IN ('failed', 'cancelled', 'crashed', 'abandoned');

-- One row per attempt that did not end its job; the last attempt is on the jobs row itself.
CREATE TABLE "{schema}".job_attempts (
    job_id      uuid NOT NULL,
    epoch       bigint NOT NULL,
    attempt     integer NOT NULL,
    outcome     text COLLATE "C" NOT NULL,
    worker      uuid NOT NULL,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    error       jsonb,
    CONSTRAINT job_attempts_pkey PRIMARY KEY (job_id, epoch)
);

-- Narration. No foreign key and no check on kind: a job's life never waits for its story.
CREATE TABLE "{schema}".job_events (
    id          bigint GENERATED ALWAYS AS IDENTITY,
    job_id      uuid NOT NULL,
    occurred_at timestamptz NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    detail      jsonb,
    xid         xid8 NOT NULL DEFAULT pg_current_xact_id(),
    CONSTRAINT job_events_pkey PRIMARY KEY (id)
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.01,
    autovacuum_analyze_scale_factor = 0.01
);

CREATE INDEX job_events_job_id_idx ON "{schema}".job_events (job_id, occurred_at);
CREATE INDEX job_events_occurred_at_idx ON "{schema}".job_events (occurred_at, id);

-- A queue without a row has the defaults.
CREATE TABLE "{schema}".queues (
    queue      text COLLATE "C" NOT NULL,
    mode       text COLLATE "C" NOT NULL DEFAULT 'strict_fifo',
    updated_at timestamptz NOT NULL,
    CONSTRAINT queues_pkey PRIMARY KEY (queue),
    CONSTRAINT queues_mode_check CHECK (mode IN ('strict_fifo'))
);

-- One row per worker session. Rows are few and beat every few seconds.
CREATE TABLE "{schema}".workers (
    id               uuid NOT NULL,
    state            text COLLATE "C" NOT NULL DEFAULT 'active',
    started_at       timestamptz NOT NULL,
    beat_at          timestamptz NOT NULL,
    lease_expires_at timestamptz NOT NULL,
    queues           text[] COLLATE "C" NOT NULL,
    actors           text[] COLLATE "C" NOT NULL,
    info             jsonb,
    CONSTRAINT workers_pkey PRIMARY KEY (id),
    CONSTRAINT workers_state_check CHECK (state IN ('active', 'lost', 'released'))
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0.02);

-- The lease of the worker that runs the sweeps: one row.
CREATE TABLE "{schema}".leader (
    only_row   boolean NOT NULL DEFAULT true,
    worker     uuid,
    epoch      bigint NOT NULL DEFAULT 0,
    expires_at timestamptz,
    CONSTRAINT leader_pkey PRIMARY KEY (only_row),
    CONSTRAINT leader_only_row_check CHECK (only_row)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0.02);

INSERT INTO "{schema}".leader (only_row) VALUES (true);

-- What SQL functions and the leader read live. A setting without a row has its default.
CREATE TABLE "{schema}".settings (
    name  text COLLATE "C" NOT NULL,
    value jsonb NOT NULL,
    CONSTRAINT settings_pkey PRIMARY KEY (name)
);
