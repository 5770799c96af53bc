-- Where finished jobs go, and for how long they stay among the others before.

-- One partition for each month of finished_at, made ahead and dropped by the leader. There is no default partition:
-- each new one would have to look through it, with its lock held.
-- The columns are those of jobs, but for what only a job among the others has.
CREATE TABLE "{schema}".jobs_archive (
    id                uuid NOT NULL,
    created_at        timestamptz NOT NULL,
    priority          smallint NOT NULL,
    max_attempts      smallint NOT NULL,
    payload_version   integer NOT NULL,
    scheduled_at      timestamptz NOT NULL,
    claim_epoch       bigint NOT NULL,
    status            "{schema}".job_status NOT NULL,
    attempt           integer NOT NULL,
    locked_by_worker  uuid,
    started_at        timestamptz,
    finished_at       timestamptz NOT NULL,
    archived_at       timestamptz NOT NULL,
    cancel_phase      smallint,
    progress_seq      bigint,
    result_expires_at timestamptz,
    error             jsonb,
    progress          jsonb,
    result            jsonb,
    queue             text COLLATE "C" NOT NULL,
    actor             text COLLATE "C" NOT NULL,
    cohort            text COLLATE "C" NOT NULL,
    payload           jsonb NOT NULL,
    schedule_to_close timestamptz,
    start_to_close    interval,
    retry_policy      jsonb,
    fairness_key      text COLLATE "C",
    identity_key      text COLLATE "C",
    unique_key        text COLLATE "C",
    keep              text COLLATE "C",
    trace_context     text COLLATE "C",
    metadata          jsonb,
    tags              text[] COLLATE "C",
    batch_id          uuid,
    parent_id         uuid,
    CONSTRAINT jobs_archive_pkey PRIMARY KEY (id, finished_at),
    CONSTRAINT jobs_archive_max_attempts_check CHECK (max_attempts >= 1),
    CONSTRAINT jobs_archive_status_check CHECK (status IN ('succeeded', 'failed', 'cancelled', 'crashed', 'abandoned'))
) PARTITION BY RANGE (finished_at);

CREATE INDEX jobs_archive_unsuccessful_idx ON "{schema}".jobs_archive (status, id)
    WHERE status IN ('failed', 'cancelled', 'crashed', 'abandoned');

-- The attempts of an archived job lie beside it: in the month in which the job finished.
CREATE TABLE "{schema}".job_attempts_archive (
    job_id          uuid NOT NULL,
    job_finished_at timestamptz NOT NULL,
    epoch           bigint NOT NULL,
    attempt         integer NOT NULL,
    outcome         text COLLATE "C" NOT NULL,
    worker          uuid NOT NULL,
    started_at      timestamptz NOT NULL,
    finished_at     timestamptz NOT NULL,
    error           jsonb,
    CONSTRAINT job_attempts_archive_pkey PRIMARY KEY (job_id, epoch, job_finished_at)
) PARTITION BY RANGE (job_finished_at);

-- How long finished jobs of an actor stay, where it is not as the settings say.
ALTER TABLE "{schema}".actor_config
    ADD COLUMN hot_period interval,
    ADD COLUMN failed_hot_period interval;

CREATE INDEX actor_config_hot_period_idx ON "{schema}".actor_config (actor) WHERE hot_period IS NOT NULL;

-- A row while finished jobs carry stamps of hot periods that have been changed since: how far they are made anew.
CREATE TABLE "{schema}".restamp (
    only_row     boolean NOT NULL DEFAULT true,
    requested_at timestamptz NOT NULL,
    reached_at   timestamptz,
    reached_id   uuid,
    CONSTRAINT restamp_pkey PRIMARY KEY (only_row),
    CONSTRAINT restamp_only_row_check CHECK (only_row)
);
