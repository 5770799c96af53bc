//! Every statement that the store sends, rendered for its schema.

use tokio_postgres::types::Type;

use crate::schema::SchemaName;
use crate::session::Sql;

macro_rules! statements {
    ($($(#[doc = $doc:literal])* $name:ident: $text:expr, [$($ty:ident),*];)*) => {
        /// The statements.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $($(#[doc = $doc])* pub(crate) $name: Sql,)*
        }

        impl Statements {
            /// Renders them.
            pub(crate) fn new(schema: &SchemaName) -> Self {
                Self { $($name: Sql::new(schema.render($text), &[$(Type::$ty),*]),)* }
            }
        }
    };
}

statements! {
    enqueue: r#"SELECT id, outcome, status FROM "{schema}".enqueue($1)"#, [JSONB];
    enqueue_plain: r#"SELECT "{schema}".enqueue_plain($1, $2, $3, $4, $5, $6, $7, $8)"#,
        [UUID, TEXT, TEXT, JSONB, INT4, INT2, INT2, BOOL];
    enqueue_many: r#"SELECT id, outcome, status FROM "{schema}".enqueue_many($1)"#, [JSONB];
    enqueue_keyed: r#"SELECT id, outcome, status FROM "{schema}".enqueue_keyed($1)"#, [JSONB];
    prepare_staging: r#"SELECT "{schema}".prepare_staging()"#, [];
    stage: r#"COPY pg_temp."{schema}_staged" (nth, id, queue, actor, payload, payload_version, priority, max_attempts,
        notify, scheduled_at, delay, schedule_to_close, start_to_close, retry_policy, trace_context, metadata, tags,
        fairness_key, keep) FROM STDIN (FORMAT binary)"#, [];
    enqueue_staged: r#"SELECT nth, id, outcome, status FROM "{schema}".enqueue_staged($1)"#, [INT8];
    /// Channel and payload.
    notify: "SELECT pg_catalog.pg_notify($1, $2)", [TEXT, TEXT];
    register: r#"SELECT "{schema}".register_worker($1, $2, $3, $4, $5)"#,
        [UUID, TEXT_ARRAY, TEXT_ARRAY, INTERVAL, JSONB];
    claim: r#"SELECT id, queue, actor, epoch, attempt, max_attempts, priority, payload, payload_version,
        scheduled_at, schedule_to_close, start_to_close, metadata, tags, trace_context, cohort, "{schema}".clock()
        FROM "{schema}".claim_slots($1, $2, $3, $4, $5, $6, $7)"#,
        [UUID, TEXT_ARRAY, INT4_ARRAY, INTERVAL, INT4, TEXT_ARRAY, TEXT_ARRAY];
    settle: r#"SELECT applied, others, reasons, statuses FROM "{schema}".settle_batch($1, $2, $3, $4, $5)"#,
        [UUID, UUID_ARRAY, INT8_ARRAY, TEXT_ARRAY, JSONB_ARRAY];
    complete: r#"SELECT id, reason, status FROM "{schema}".complete($1, $2, $3, $4)"#, [UUID, UUID, INT8, JSONB];
    heartbeat: r#"SELECT kind, job_id, epoch FROM "{schema}".heartbeat($1, $2, $3, $4)"#,
        [UUID, INTERVAL, JSONB, INTERVAL];
    held: r#"SELECT id, epoch, started_at FROM "{schema}".held($1, $2)"#, [UUID, TIMESTAMPTZ];
    release: r#"SELECT "{schema}".release_worker($1)"#, [UUID];
    sweeps_due: r#"SELECT sweep, due_in, behind, clear_to, took, batch, problem
        FROM "{schema}".sweeps_due($1, $2, $3)"#, [UUID, INT8, JSONB];
    promote: r#"SELECT swept, more, due_in, reached_at, reached_id::text, problems, problem
        FROM "{schema}".promote($1, $2, $3, $4, $5::text::uuid)"#, [UUID, INT8, INT4, TIMESTAMPTZ, TEXT];
    mark_lost: r#"SELECT swept, more, due_in, reached_at, reached_id::text, problems, problem
        FROM "{schema}".mark_lost($1, $2, $3)"#, [UUID, INT8, INT4];
    forget_workers: r#"SELECT swept, more, due_in, reached_at, reached_id::text, problems, problem
        FROM "{schema}".forget_workers($1, $2, $3)"#, [UUID, INT8, INT4];
    sweep_deadlines: r#"SELECT swept, more, due_in, reached_at, reached_id::text, problems, problem
        FROM "{schema}".sweep_deadlines($1, $2, $3, $4, $5::text::uuid)"#, [UUID, INT8, INT4, TIMESTAMPTZ, TEXT];
    sweep_results: r#"SELECT swept, more, due_in, reached_at, reached_id::text, problems, problem
        FROM "{schema}".sweep_results($1, $2, $3, $4, $5::text::uuid)"#, [UUID, INT8, INT4, TIMESTAMPTZ, TEXT];
    sweep_events: r#"SELECT swept, more, due_in, reached_at, reached_id::text, problems, problem
        FROM "{schema}".sweep_events($1, $2, $3, $4, $5::text::bigint, $6)"#,
        [UUID, INT8, INT4, TIMESTAMPTZ, TEXT, INTERVAL];
    sweep_archive: r#"SELECT swept, more, due_in, reached_at, reached_id::text, problems, problem
        FROM "{schema}".sweep_archive($1, $2, $3, $4, $5::text::uuid)"#, [UUID, INT8, INT4, TIMESTAMPTZ, TEXT];
    expire_archive: r#"SELECT swept, more, due_in, reached_at, reached_id::text, problems, problem
        FROM "{schema}".expire_archive($1, $2, $3)"#, [UUID, INT8, INT4];
    sweep_restamp: r#"SELECT swept, more, due_in, reached_at, reached_id::text, problems, problem
        FROM "{schema}".sweep_restamp($1, $2, $3)"#, [UUID, INT8, INT4];
    forget_keys: r#"SELECT swept, more, due_in, reached_at, reached_id::text, problems, problem
        FROM "{schema}".forget_keys($1, $2, $3, $4)"#, [UUID, INT8, INT4, TIMESTAMPTZ];
    reclaim: r#"SELECT id, epoch, status, problem, reached_at, reached_id
        FROM "{schema}".reclaim($1, $2, $3, $4, $5, $6, $7, $8)"#,
        [UUID, INT8, INT4, INTERVAL, INTERVAL, UUID_ARRAY, TIMESTAMPTZ, TEXT];
    note_sweeps: r#"SELECT "{schema}".note_sweeps($1, $2, $3)"#, [UUID, INT8, JSONB];
    sweeps: include_str!("../../sql/queries/sweeps.sql"), [TEXT_ARRAY];
    cancel: r#"SELECT id, outcome, status FROM "{schema}".cancel($1, $2)"#, [UUID_ARRAY, TEXT];
    cancel_matching: r#"SELECT cancelled, requested, scanned_to FROM "{schema}".cancel_matching($1, $2, $3, $4)"#,
        [JSONB, INT4, UUID, TEXT];
    retry: r#"SELECT id, outcome, status FROM "{schema}".retry($1)"#, [UUID_ARRAY];
    retry_matching: r#"SELECT retried, scanned_to FROM "{schema}".retry_matching($1, $2, $3)"#, [JSONB, INT4, UUID];
    prune: r#"SELECT pruned, archived, scanned_to FROM "{schema}".prune($1, $2, $3, $4, $5)"#,
        [JSONB, INTERVAL, INT4, UUID, BOOL];
    pause: r#"SELECT "{schema}".pause($1, $2)"#, [TEXT, TEXT];
    resume: r#"SELECT "{schema}".resume($1, $2)"#, [TEXT, TEXT];
    set_queue: r#"SELECT changed, merged, more FROM "{schema}".set_queue($1, $2, $3)"#, [TEXT, TEXT, INT4];
    set_actor: r#"SELECT "{schema}".set_actor($1, $2)"#, [TEXT, JSONB];
    paused_actors: include_str!("../../sql/queries/paused_actors.sql"), [];
    records: include_str!("../../sql/queries/records.sql"), [UUID_ARRAY];
    records_archived: include_str!("../../sql/queries/records_archived.sql"), [UUID_ARRAY];
    page: include_str!("../../sql/queries/page.sql"), [TEXT, TEXT, TEXT, UUID, INT8];
    page_pending: include_str!("../../sql/queries/page_pending.sql"), [TEXT, TEXT, TEXT, UUID, INT8];
    page_scheduled: include_str!("../../sql/queries/page_scheduled.sql"), [TEXT, TEXT, TEXT, UUID, INT8];
    page_running: include_str!("../../sql/queries/page_running.sql"), [TEXT, TEXT, TEXT, UUID, INT8];
    page_unsuccessful: include_str!("../../sql/queries/page_unsuccessful.sql"), [TEXT, TEXT, TEXT, UUID, INT8];
    page_archived: include_str!("../../sql/queries/page_archived.sql"), [TEXT, TEXT, TEXT, UUID, INT8];
    page_archived_unsuccessful: include_str!("../../sql/queries/page_archived_unsuccessful.sql"),
        [TEXT, TEXT, TEXT, UUID, INT8];
    events: include_str!("../../sql/queries/events.sql"), [TEXT, INT8, INT8];
    hold_hook: r#"SELECT xid, id FROM "{schema}".hold_hook($1, $2, $3, $4, $5)"#, [TEXT, UUID, INTERVAL, TEXT, INT8];
    set_setting: r#"SELECT "{schema}".set_setting($1, $2)"#, [TEXT, JSONB];
    settings: include_str!("../../sql/queries/settings.sql"), [TEXT_ARRAY];
    attempts: include_str!("../../sql/queries/attempts.sql"), [UUID];
    endings: include_str!("../../sql/queries/endings.sql"), [UUID_ARRAY];
    endings_archived: include_str!("../../sql/queries/endings_archived.sql"), [UUID_ARRAY];
    queues: include_str!("../../sql/queries/queues.sql"), [];
    stats_jobs: include_str!("../../sql/queries/stats_jobs.sql"), [];
    workers: include_str!("../../sql/queries/workers.sql"), [BOOL];
    leader: include_str!("../../sql/queries/leader.sql"), [];
    unserved: include_str!("../../sql/queries/unserved.sql"), [];
    ledger: include_str!("../../sql/queries/ledger.sql"), [];
}
