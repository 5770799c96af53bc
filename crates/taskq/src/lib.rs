//! Background jobs in the PostgreSQL you already run.
//!
//! A *job* is a row in one schema of your database, written in a call (or a transaction) of yours. A *worker* is
//! a process that claims jobs and runs the *handler* of their *actor*. There is no broker.
//!
//! # A job
//!
//! A job type is data: what the handler needs to know. The program that enqueues needs nothing else.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use taskq::prelude::*;
//!
//! #[derive(Serialize, Deserialize, Job)]
//! #[job(actor = "mail.welcome", queue = "mail", output = Receipt, max_attempts = 10)]
//! struct SendWelcome {
//!     user_id: i64,
//! }
//!
//! #[derive(Serialize, Deserialize)]
//! struct Receipt {
//!     message: String,
//! }
//!
//! struct Mailer {
//!     from: String,
//! }
//!
//! impl Handler<SendWelcome> for Mailer {
//!     async fn run(&self, job: SendWelcome, ctx: Context) -> JobResult<Receipt> {
//!         // `?` on any error: the job is tried again by its retry policy.
//!         let attempt: u32 = ctx.attempt().try_into()?;
//!         Ok(Receipt { message: format!("{} to {}, attempt {attempt}", self.from, job.user_id) })
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // `TaskQ::connect(url)` in a program, after `taskq migrate up`.
//! let taskq = TaskQ::in_memory();
//! let handle = taskq.enqueue(&SendWelcome { user_id: 42 }).await?;
//!
//! let mailer = Mailer { from: "post@example.org".to_owned() };
//! let worker = Worker::builder(&taskq).queue("mail", 100).handle::<SendWelcome>(mailer).build()?;
//! let worker = worker.start(); // a program that only works: `worker.run_until_signal().await?`
//!
//! let receipt: Receipt = handle.wait().await?;
//! assert_eq!(receipt.message, "post@example.org to 42, attempt 1");
//! worker.stop();
//! assert_eq!(worker.join().await?.succeeded, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Enqueueing
//!
//! [`enqueue`](Client::enqueue) returns a builder: await it as it is, or say first when the job shall run
//! ([`run_in`](Enqueue::run_in), [`run_at`](Enqueue::run_at)), how urgent it is, how long an attempt may take and
//! so on. Once the await is done, the job is committed. [`enqueue_many`](Client::enqueue_many) writes all of its
//! jobs or none. What is out of bounds is refused with a typed error before anything is written.
//!
//! An [`idempotency_key`](Enqueue::idempotency_key) makes an enqueue safe to repeat: while the key is taken, its job is
//! the answer. If that job has ended, the enqueue is an error, unless [`on_finished`](Enqueue::on_finished) says what is
//! wanted then.
//!
//! ```
//! # use serde::{Deserialize, Serialize};
//! # use taskq::prelude::*;
//! use taskq::{EnqueueOutcome, OnFinished};
//!
//! # #[derive(Serialize, Deserialize, Job)]
//! # #[job(actor = "invoice.send")]
//! # struct SendInvoice { order: i64 }
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let taskq = TaskQ::in_memory();
//! let once = || taskq.enqueue(&SendInvoice { order: 7 }).idempotency_key("order-7").on_finished(OnFinished::Return);
//! let first = once().await?;
//! let second = once().await?;
//! assert_eq!(second.id(), first.id());
//! assert_eq!(second.outcome(), Some(EnqueueOutcome::Existing));
//! # Ok(())
//! # }
//! ```
//!
//! # Handlers
//!
//! A [`Handler`] is a struct, an async function or a closure. What it returns says what becomes of the job:
//!
//! | returned | the job |
//! |---|---|
//! | `Ok(output)` | succeeded; whoever [waits](JobHandle::wait) gets the output |
//! | `Err` of any error | is tried again by its [`RetryPolicy`], until its attempts are spent |
//! | [`JobError::fail`] | failed, whatever attempts are left |
//! | [`JobError::snooze`], [`JobError::retry_after`] | runs again after a delay, without burning an attempt |
//! | [`JobError::cancel`] | cancelled |
//!
//! A panic and a timeout count as errors. **A job runs at least once**: when a worker dies between a deed and its
//! record, the job runs again, so a handler must bear being repeated. The outcome of an attempt that lost its
//! claim on the job is never accepted.
//!
//! # Workers
//!
//! A [`Worker`] serves queues, each with slots of its own, and has one handler per actor. Its future may be
//! dropped at any await when it must stop; work that must end first, such as reaping a child process, belongs on
//! [`Context::cleanup`]. Handlers run on the caller's runtime. What keeps the worker alive runs apart from it, so
//! that a handler that blocks its thread does not cost the lease.
//!
//! [`around`](WorkerBuilder::around) adds code around every attempt of a worker. [`on_end`](WorkerBuilder::on_end) adds a
//! hook that is told of every end of every job, also of those that never started or that other workers ended:
//!
//! ```
//! use taskq::store::Setting;
//! use taskq::{EventLevel, JobEnd};
//! # use serde::{Deserialize, Serialize};
//! # use taskq::prelude::*;
//!
//! # #[derive(Serialize, Deserialize, Job)]
//! # #[job(actor = "report.render")]
//! # struct Render;
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let taskq = TaskQ::in_memory();
//! # let render = async |_: Render, _: Context| Ok(());
//! taskq.set(Setting::EventLevel(EventLevel::Ends)).await?; // once: every end is written down, a row a job
//! let worker = Worker::builder(&taskq).queue("default", 10).handle::<Render>(render).on_end(
//!     "audit", // its place is kept under this name
//!     async |end: JobEnd| {
//!         println!("{} {}", end.job, end.status);
//!         Ok(()) // after an error it is told again
//!     },
//! );
//! # worker.build()?;
//! # Ok(())
//! # }
//! ```
//!
//! A worker that dies, or that loses its lease, loses no job: the leader, one of the workers, makes its jobs ready
//! again. A job that kills its process does so at most as often as it has attempts, and ends as crashed.
//!
//! # Stopping
//!
//! | what stops an attempt | the handler | the job |
//! |---|---|---|
//! | a [cancellation](Client::cancel) | [`Context::cancelled`] fires; after 30 s its future is dropped | cancelled, unless the handler succeeds by then |
//! | its timeout ([`start_to_close`](Enqueue::start_to_close)) | its future is dropped | failed with the class `timeout`, tried again |
//! | a shutdown | goes on for the grace of 30 s, then its future is dropped | goes back, no attempt is burnt |
//! | a lost lease | its future is dropped | runs elsewhere |
//!
//! [`Context::stop_reason`] tells them apart. An attempt counts as stopped only when its future is dropped and its
//! cleanup has ended. One that does not end within 10 s of a cancellation or a timeout, such as a handler that blocks its
//! thread, is *abandoned*: its job is never tried again, and its slot stays taken as long as it goes on.
//!
//! At SIGTERM or Ctrl-C [`Worker::run_until_signal`] claims nothing more and stops as said above; a second signal ends
//! the grace. [`ShutdownReport::exit_code`] is 0 when every attempt has ended or was given back, else 1.
//!
//! # Operating
//!
//! [`cancel`](Client::cancel) and [`retry`](Client::retry) take ids, [`cancel_matching`](Client::cancel_matching) and
//! [`retry_matching`](Client::retry_matching) a filter. [`queue`](Client::queue) and [`actor`](Client::actor) can be
//! paused and resumed. [`workers`](Client::workers) and [`leader`](Client::leader) say who works, and
//! [`sweeps`](Client::sweeps) how the leader's maintenance stands. [`events`](Client::events) tells what happens to jobs,
//! as a stream that can be taken up again where it was left.
//!
//! # Turns
//!
//! A queue hands out its jobs in one order: priority, then time. So a tenant that enqueues ten thousand jobs makes the
//! others wait. [`set_queue`](Client::set_queue) lets the lanes of a queue take turns instead, and
//! [`fairness_key`](Enqueue::fairness_key) says which lane of its actor a job belongs to:
//!
//! ```
//! use taskq::store::QueueMode;
//! # use serde::{Deserialize, Serialize};
//! # use taskq::prelude::*;
//!
//! # #[derive(Serialize, Deserialize, Job)]
//! # #[job(actor = "report.render", queue = "reports")]
//! # struct Render { tenant: String }
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let taskq = TaskQ::in_memory();
//! taskq.set_queue("reports", QueueMode::RoundRobin).await?; // once, or `taskq queue set reports --mode round_robin`
//! for tenant in ["acme", "acme", "acme", "initech"] {
//!     taskq.enqueue(&Render { tenant: tenant.to_owned() }).fairness_key(tenant).await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Priorities then count within a lane. The mode can be changed at any time; workers follow with their next claim.
//!
//! # Tests
//!
//! [`TaskQ::in_memory`] needs no database. [`testing`] runs a handler without any store, or a worker until its
//! queues are empty.

mod connect;

/// The guide, whose snippets are tests.
#[cfg(doctest)]
mod guide {
    macro_rules! pages {
        ($($name:ident: $file:literal),* $(,)?) => {
            $(#[doc = include_str!(concat!("../../../docs/guide/", $file))] mod $name {})*
        };
    }
    pages! {
        first_job: "first-job.md",
        retries: "retries.md",
        scheduling: "scheduling.md",
        transactions: "transactions.md",
        idempotency: "idempotency.md",
        cancellation: "cancellation.md",
        testing: "testing.md",
        deployment: "deployment.md",
        poolers: "poolers.md",
    }
}

/// What most programs need.
pub mod prelude {
    pub use crate::{Client, Context, Handler, Job, JobError, JobHandle, JobResult, TaskQ, Worker};
    pub use taskq_postgres::prelude::*;
}

/// Stores, for programs that do without [`TaskQ`] or read what operators read.
pub mod store {
    pub use taskq_core::store::memory::{Clock, MemoryStore, TestClock};
    pub use taskq_core::store::{
        ActorChanges, ActorSummary, CancelOutcome, Cancelled, Count, Ending, EventPage, Held, HookHold,
        JobFilter, JobMatch, LeaderSummary, PruneCall, PruneMode, PrunedBatch, QueueMode, QueueSummary,
        Retried, RetryOutcome, SchemaProblem, Setting, SettingSummary, Stats, Store, StoreError, Sweep,
        SweepSummary, Wake, Wakes, WorkerState, WorkerSummary,
    };
    pub use taskq_postgres::PostgresStore;
}

/// Migrations: bringing the schema to what this version needs.
pub mod migrate {
    pub use taskq_postgres::{
        Applied, Finding, FunctionsState, GrantedRole, MigrateError, MigrationSet, MigrationState,
        MigrationStatus, Migrator, Mode, Phase, RoleKind, SchemaStatus, Step,
    };
}

/// Looking for what needs a person, as `taskq doctor` does.
pub mod doctor {
    pub use taskq_postgres::{Diagnosis, Doctor, Limits, Verdict};
}

pub use connect::{ConnectError, TaskQ};
pub use jiff::Timestamp;
pub use taskq_core::client::{
    Absence, ActorHandle, Cancel, CancelMatching, CancelTotals, Client, Enqueue, EnqueueError, EnqueueMany,
    EnqueueRaw, Events, Job, JobHandle, LaneControl, OperateError, Prepared, PreparedMany, Prune,
    PruneTotals, QueueChange, QueueHandle, Retry, RetryMatching, RetryTotals, SessionHandle, SetQueue,
    WaitError, WakeToken,
};
pub use taskq_core::model::{
    ActorName, AttemptRecord, DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE, EnqueueOutcome, Enqueued, Epoch,
    ErrorRecord, EventCursor, EventLevel, EventRecord, FairnessKey, HookName, IdempotencyKey,
    InvalidEventCursor, InvalidName, InvalidRetryPolicy, JobId, JobRecord, Json, JsonError, Keep, NewJob,
    Notify, OnFinished, OutcomeKind, PAYLOAD_LIMIT, QueueName, RESULT_LIMIT, RetryPolicy, Schedule, Status,
    WorkerId,
};
pub use taskq_core::testing;
pub use taskq_core::worker::{
    Around, BuildError, Context, DEFAULT_CANCEL_GRACE, DEFAULT_FORCED_GRACE, DEFAULT_GRACE, DEFAULT_LEASE,
    DEFAULT_SLOTS, EndResult, Handler, JobEnd, JobError, JobErrorKind, JobResult, Next, RawHandler, RunError,
    SLOTS_LIMIT, ShutdownReport, StopReason, Stopper, Worker, WorkerBuilder, WorkerHandle,
    install_panic_hook,
};
pub use taskq_macros::Job;
pub use taskq_postgres::{
    CompleteError, CompleteIn, ConnectOptions, ConnectionMode, Executor, InTx, InvalidSchemaName,
    PasswordCallback, SchemaName, Statement,
};
