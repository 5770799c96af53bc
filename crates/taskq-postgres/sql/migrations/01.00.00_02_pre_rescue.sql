-- What rescue, cancellation, pausing and idempotency keep.

-- One row per running job that somebody asked to cancel; its worker reads it at the next beat. The row goes when the
-- attempt ends.
CREATE TABLE "{schema}".cancel_requests (
    job_id       uuid NOT NULL,
    epoch        bigint NOT NULL,
    worker       uuid NOT NULL,
    requested_at timestamptz NOT NULL,
    CONSTRAINT cancel_requests_pkey PRIMARY KEY (job_id)
);

CREATE INDEX cancel_requests_worker_idx ON "{schema}".cancel_requests (worker);

-- Makes one enqueue safe to repeat. A key that has expired counts as absent at once.
CREATE TABLE "{schema}".idempotency_keys (
    actor           text COLLATE "C" NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    job_id          uuid NOT NULL,
    expires_at      timestamptz NOT NULL,
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (actor, idempotency_key)
);

CREATE INDEX idempotency_keys_expires_at_idx ON "{schema}".idempotency_keys (expires_at);

-- An actor without a row has the defaults.
CREATE TABLE "{schema}".actor_config (
    actor      text COLLATE "C" NOT NULL,
    paused_at  timestamptz,
    updated_at timestamptz NOT NULL,
    CONSTRAINT actor_config_pkey PRIMARY KEY (actor)
);

ALTER TABLE "{schema}".queues ADD COLUMN paused_at timestamptz;
