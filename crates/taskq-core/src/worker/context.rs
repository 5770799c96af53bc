//! What a handler knows of its attempt besides the payload.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::stop::{Control, StopReason};
use crate::client::Client;
use crate::model::{ActorName, ClaimedJob, Epoch, JobId, Json, QueueName, WorkerId};

/// What a handler knows of its attempt. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

struct Inner {
    worker: WorkerId,
    job: Facts,
    deadline: Option<Instant>,
    client: Client,
    control: Control,
    cleanup: OnceLock<TaskTracker>,
}

/// A claimed job without its payload.
struct Facts {
    id: JobId,
    queue: QueueName,
    actor: ActorName,
    epoch: Epoch,
    attempt: i32,
    max_attempts: i16,
    priority: i16,
    payload_version: i32,
    scheduled_at: Timestamp,
    schedule_to_close: Option<Timestamp>,
    start_to_close: Option<Duration>,
    metadata: Option<Json>,
    tags: Vec<String>,
    trace_context: Option<String>,
}

impl Context {
    /// Divides a claimed job into its payload and the context of the attempt that begins now.
    pub(super) fn split(job: ClaimedJob, worker: WorkerId, client: Client, control: Control) -> (Json, Self) {
        let facts = Facts {
            id: job.id,
            queue: job.queue,
            actor: job.actor,
            epoch: job.epoch,
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            priority: job.priority,
            payload_version: job.payload_version,
            scheduled_at: job.scheduled_at,
            schedule_to_close: job.schedule_to_close,
            start_to_close: job.start_to_close,
            metadata: job.metadata,
            tags: job.tags,
            trace_context: job.trace_context,
        };
        // A bound beyond what the clock can express is no bound.
        let deadline = facts.start_to_close.and_then(|bound| Instant::now().checked_add(bound));
        let inner = Inner { worker, job: facts, deadline, client, control, cleanup: OnceLock::new() };
        (job.payload, Self { inner: Arc::new(inner) })
    }

    /// Returns the job's id.
    pub fn id(&self) -> JobId {
        self.inner.job.id
    }

    /// Returns the queue that the job was claimed from.
    pub fn queue(&self) -> &QueueName {
        &self.inner.job.queue
    }

    /// Returns the actor that the job is for.
    pub fn actor(&self) -> &ActorName {
        &self.inner.job.actor
    }

    /// Returns the attempt's fence, which tells it apart from every other attempt of the job.
    pub fn epoch(&self) -> Epoch {
        self.inner.job.epoch
    }

    /// Returns the worker's session. Together with the job's id and the [epoch](Self::epoch) it is what every write of
    /// the attempt is fenced by.
    pub fn worker(&self) -> WorkerId {
        self.inner.worker
    }

    /// Notes that the attempt's success is written in a transaction of the handler's own, which may be committed before
    /// the handler returns: a job that the store lists no more is then no sign of a lost claim. For those who write it by
    /// hand.
    pub fn note_completed(&self) {
        self.inner.control.complete();
    }

    /// Returns the number of this attempt, from 1. An attempt that burnt nothing shares its number with the
    /// next.
    pub fn attempt(&self) -> i32 {
        self.inner.job.attempt
    }

    /// Returns how many attempts may be made.
    pub fn max_attempts(&self) -> i16 {
        self.inner.job.max_attempts
    }

    /// Returns the job's priority.
    pub fn priority(&self) -> i16 {
        self.inner.job.priority
    }

    /// Returns the version of the payload's type.
    pub fn payload_version(&self) -> i32 {
        self.inner.job.payload_version
    }

    /// Returns when the job became ready, by the store's clock.
    pub fn scheduled_at(&self) -> Timestamp {
        self.inner.job.scheduled_at
    }

    /// Returns the deadline after which no further attempt starts, by the store's clock.
    pub fn schedule_to_close(&self) -> Option<Timestamp> {
        self.inner.job.schedule_to_close
    }

    /// Returns how long this attempt may take.
    pub fn start_to_close(&self) -> Option<Duration> {
        self.inner.job.start_to_close
    }

    /// Returns when this attempt is stopped, by this process's monotonic clock; `None` means never.
    pub fn deadline(&self) -> Option<Instant> {
        self.inner.deadline
    }

    /// Returns the caller's own data.
    pub fn metadata(&self) -> Option<&Json> {
        self.inner.job.metadata.as_ref()
    }

    /// Returns the job's labels.
    pub fn tags(&self) -> &[String] {
        &self.inner.job.tags
    }

    /// Returns the W3C `traceparent` of whoever enqueued the job.
    pub fn trace_context(&self) -> Option<&str> {
        self.inner.job.trace_context.as_deref()
    }

    /// Returns the worker's client, to enqueue further jobs.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// Returns the token that fires when the attempt is to stop; [`stop_reason`](Self::stop_reason) says why.
    ///
    /// When its job is cancelled, the handler may end by itself until the cooperative grace is over: what it returns by
    /// then counts, a failure as the cancellation. For every other reason its future is dropped directly after the token
    /// has fired; then the token is for what the handler started besides.
    pub fn cancelled(&self) -> &CancellationToken {
        self.inner.control.cancelled()
    }

    /// Says whether the attempt is to stop.
    pub fn is_cancelled(&self) -> bool {
        self.inner.control.reason().is_some()
    }

    /// Says why the attempt is to stop; `None` while it is not.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.inner.control.reason()
    }

    /// Returns the tracker of work that must end before the attempt is settled, such as waiting for a killed
    /// child process.
    ///
    /// It outlives the handler's future: what is spawned on it, also from a destructor of that future, is
    /// awaited; so are threads, by [`TaskTracker::spawn_blocking`]. What has not ended within the forced grace after the
    /// attempt was cancelled or timed out makes its job `abandoned`, and keeps the slot until it ends.
    pub fn cleanup(&self) -> &TaskTracker {
        self.inner.cleanup.get_or_init(TaskTracker::new)
    }

    /// Returns that tracker if something is tracked by it.
    pub(super) fn begun_cleanup(&self) -> Option<&TaskTracker> {
        self.inner.cleanup.get().filter(|cleanup| !cleanup.is_empty())
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("id", &self.id())
            .field("actor", self.actor())
            .field("attempt", &self.attempt())
            .field("epoch", &self.epoch())
            .finish_non_exhaustive()
    }
}
