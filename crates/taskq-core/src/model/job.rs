//! Jobs: as they are enqueued, as a worker receives them, as they are stored.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::{
    ActorName, Epoch, ErrorRecord, FairnessKey, IdempotencyKey, JobId, Json, OutcomeKind, QueueName,
    RetryPolicy, Status, WorkerId,
};

/// The queue of a job that names none.
pub const DEFAULT_QUEUE: &str = "default";
/// The attempts of a job that names no number.
pub const DEFAULT_MAX_ATTEMPTS: i16 = 20;

/// When a job becomes ready.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Schedule {
    /// At once.
    #[default]
    Now,
    /// After a delay, by the database's clock.
    After(Duration),
    /// At a time; a time that has passed means at once.
    At(Timestamp),
}

/// A job to be enqueued.
#[derive(Clone, PartialEq, Debug)]
pub struct NewJob {
    /// Its id, made by the caller so that a repeated call can be recognised.
    pub id: JobId,
    /// Its queue.
    pub queue: QueueName,
    /// Its actor.
    pub actor: ActorName,
    /// What its handler receives; at most 1 MiB.
    pub payload: Json,
    /// The version of the payload's type; 1 to 2³¹ − 1.
    pub payload_version: i32,
    /// Jobs with a higher priority are claimed first; default 0.
    pub priority: i16,
    /// When it becomes ready.
    pub schedule: Schedule,
    /// The deadline after which no attempt starts; it must lie behind the schedule.
    pub schedule_to_close: Option<Timestamp>,
    /// How long one attempt may take; `None` is for ever.
    pub start_to_close: Option<Duration>,
    /// How many attempts may be made; 1 to 32,767.
    pub max_attempts: i16,
    /// When failed attempts are tried again; `None` is the default policy.
    pub retry_policy: Option<RetryPolicy>,
    /// Labels for operators: at most 64, each like a name.
    pub tags: Vec<String>,
    /// A JSON object for the caller's own use.
    pub metadata: Option<Json>,
    /// The W3C `traceparent` of the caller.
    pub trace_context: Option<String>,
    /// Its cohort, in a queue whose lanes take turns; any other queue refuses it.
    pub fairness_key: Option<FairnessKey>,
    /// Makes the enqueue safe to repeat for 7 days: while the key of this actor is taken, no job is written.
    pub idempotency_key: Option<IdempotencyKey>,
    /// What a taken key means when its job has ended. Has a meaning only with a key.
    pub on_finished: OnFinished,
    /// What is left of it once it has succeeded.
    pub keep: Keep,
    /// Whether the enqueue tells those who wait for jobs.
    pub notify: Notify,
}

/// What is left of a job that has succeeded. Every other end is kept in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// The job with its result, as long as finished jobs are kept.
    #[default]
    All,
    /// Nothing: the job is deleted as it succeeds, and its result with it.
    None,
}

impl Keep {
    /// Finds what a word names.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "all" => Some(Self::All),
            "none" => Some(Self::None),
            _ => None,
        }
    }
}

/// Whether an enqueue tells those who wait for jobs. Without being told they find the job when they look next, at the
/// latest after seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Notify {
    /// It does, as its transaction commits.
    #[default]
    Default,
    /// It does not. PostgreSQL lets transactions that notify commit one after the other, so those of many sessions at
    /// once are faster without; whoever enqueued can tell the others afterwards, outside of the transaction.
    None,
}

/// What an idempotency key means whose job has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFinished {
    /// The ended job is the answer: nothing is written.
    #[default]
    Return,
    /// The key is taken over by the new job.
    RunAgain,
}

impl NewJob {
    /// Makes a job with a new id and the defaults.
    pub fn new(queue: QueueName, actor: ActorName, payload: Json) -> Self {
        Self {
            id: JobId::new(),
            queue,
            actor,
            payload,
            payload_version: 1,
            priority: 0,
            schedule: Schedule::Now,
            schedule_to_close: None,
            start_to_close: None,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            retry_policy: None,
            tags: Vec::new(),
            metadata: None,
            trace_context: None,
            fairness_key: None,
            idempotency_key: None,
            on_finished: OnFinished::Return,
            keep: Keep::All,
            notify: Notify::Default,
        }
    }
}

/// What an enqueue did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EnqueueOutcome {
    /// A new job was written.
    Created,
    /// A job with this id, or of this idempotency key, was there already; nothing was written.
    Existing,
    /// A new job was written, and took its idempotency key over from one that had ended.
    Replaced,
}

impl EnqueueOutcome {
    /// Finds the outcome that a word names.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "created" => Some(Self::Created),
            "existing" => Some(Self::Existing),
            "replaced" => Some(Self::Replaced),
            _ => None,
        }
    }
}

/// The store's answer to one [`NewJob`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Enqueued {
    /// The job: the new one, or the one that was there.
    pub id: JobId,
    /// Whether it is new.
    pub outcome: EnqueueOutcome,
    /// The job's status; `None` when it was there once and is not any more, though its idempotency key still stands.
    pub status: Option<Status>,
}

/// A job that a worker has claimed.
#[derive(Clone, PartialEq, Debug)]
pub struct ClaimedJob {
    /// The job.
    pub id: JobId,
    /// Its queue.
    pub queue: QueueName,
    /// Its actor.
    pub actor: ActorName,
    /// The attempt's fence.
    pub epoch: Epoch,
    /// The number of this attempt, from 1.
    pub attempt: i32,
    /// How many attempts may be made.
    pub max_attempts: i16,
    /// Its priority.
    pub priority: i16,
    /// What its handler receives.
    pub payload: Json,
    /// The version of the payload's type.
    pub payload_version: i32,
    /// When it became ready.
    pub scheduled_at: Timestamp,
    /// Its deadline.
    pub schedule_to_close: Option<Timestamp>,
    /// How long this attempt may take.
    pub start_to_close: Option<Duration>,
    /// A JSON object of the caller's own.
    pub metadata: Option<Json>,
    /// Labels for operators.
    pub tags: Vec<String>,
    /// The W3C `traceparent` of the caller.
    pub trace_context: Option<String>,
}

/// A job as it is stored.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct JobRecord {
    /// The job.
    pub id: JobId,
    /// Its queue.
    pub queue: QueueName,
    /// Its actor.
    pub actor: ActorName,
    /// Where it stands.
    pub status: Status,
    /// Its priority.
    pub priority: i16,
    /// Attempts made that count against `max_attempts`.
    pub attempt: i32,
    /// How many attempts may be made.
    pub max_attempts: i16,
    /// Claims made.
    pub epoch: Epoch,
    /// What its handler receives.
    pub payload: Json,
    /// The version of the payload's type.
    pub payload_version: i32,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When it became, or will become, ready.
    pub scheduled_at: Timestamp,
    /// When its last attempt started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// When it was moved to the archive; `None` while it is among the others.
    pub archived_at: Option<Timestamp>,
    /// The worker that holds it, or that ended it.
    pub worker: Option<WorkerId>,
    /// Whether it runs and somebody has asked to cancel it.
    pub cancel_requested: bool,
    /// Its deadline.
    pub schedule_to_close: Option<Timestamp>,
    /// How long one attempt may take, in seconds.
    #[serde(serialize_with = "as_seconds")]
    pub start_to_close: Option<Duration>,
    /// When failed attempts are tried again; `None` is the default policy.
    pub retry_policy: Option<RetryPolicy>,
    /// Its cohort, as it was enqueued with.
    pub fairness_key: Option<FairnessKey>,
    /// The last error.
    pub error: Option<ErrorRecord>,
    /// What its handler returned.
    pub result: Option<Json>,
    /// Until when the result is kept; `None` is for ever. It stays when the result has gone.
    pub result_expires_at: Option<Timestamp>,
    /// What its handler last said of its progress.
    pub progress: Option<Json>,
    /// Labels for operators.
    pub tags: Vec<String>,
    /// A JSON object of the caller's own.
    pub metadata: Option<Json>,
    /// The W3C `traceparent` of the caller.
    pub trace_context: Option<String>,
    /// What is left of it once it has succeeded.
    pub keep: Keep,
}

/// An attempt that did not end its job. The last attempt is on the [`JobRecord`] itself.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AttemptRecord {
    /// The job.
    pub job_id: JobId,
    /// The attempt's fence.
    pub epoch: Epoch,
    /// Its number, from 1. An attempt that burnt nothing shares its number with the next.
    pub attempt: i32,
    /// What became of it.
    #[serde(serialize_with = "as_word")]
    pub outcome: OutcomeKind,
    /// The worker that ran it.
    pub worker: WorkerId,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// What went wrong.
    pub error: Option<ErrorRecord>,
}

#[expect(clippy::ref_option, reason = "serde fixes the signature")]
fn as_seconds<S: serde::Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    value.map(|duration| duration.as_secs_f64()).serialize(serializer)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde fixes the signature")]
fn as_word<S: serde::Serializer>(value: &OutcomeKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.as_str())
}
