//! The one seam to state: everything taskq knows about jobs goes through [`Store`].
//!
//! Two implementations exist: PostgreSQL (`taskq-postgres`) and memory. One list of behaviour tests
//! (`taskq-contract`) runs on both.

mod control;
mod error;
mod hook;
pub mod memory;
mod query;
mod settings;
mod sweep;
mod wake;

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

pub use control::{
    CancelOutcome, Cancelled, CancelledBatch, JobMatch, LanePart, PruneCall, PruneMode, PrunedBatch,
    QueueSet, Reclaimed, Retried, RetriedBatch, RetryOutcome,
};
pub use error::{SchemaProblem, StoreError};
pub use hook::HookHold;
pub use query::{
    ActorSummary, Count, Ending, EventPage, JobFilter, LeaderSummary, QueueMode, QueueSummary, Stats,
    WorkerState, WorkerSummary,
};
pub use settings::{
    ActorChanges, DEFAULT_ARCHIVE_RETENTION_PERIOD, DEFAULT_EVENT_RETENTION_BATCH_SIZE,
    DEFAULT_EVENT_RETENTION_PERIOD, DEFAULT_FAILED_HOT_PERIOD, DEFAULT_HOT_PERIOD, MIN_HOT_PERIOD, Setting,
    SettingSummary,
};
pub use sweep::{
    LookFrom, OutageSpan, ReclaimBatch, ReclaimOptions, Sweep, SweepCall, SweepDue, SweepFailure, SweepKey,
    SweepNote, SweepProbe, SweepRun, SweepSummary, Swept,
};
pub use wake::{Wake, Wakes};

use crate::model::{
    ActorName, AttemptRecord, ClaimedJob, Enqueued, Epoch, EventCursor, FairnessKey, JobId, JobRecord, Json,
    NewJob, QueueName, Settled, Settlement, WorkerId,
};

/// A worker session as it registers.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The session, fresh at every start.
    pub worker: WorkerId,
    /// The queues it subscribes to.
    pub queues: Vec<QueueName>,
    /// The actors it has handlers for.
    pub actors: Vec<ActorName>,
    /// How long the session lives without a heartbeat; at least 1 s.
    pub lease: Duration,
    /// Facts for operators, such as host and process id: a JSON object.
    pub info: Option<Json>,
}

/// A queue and how many of its jobs a claim may return.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueSlots {
    /// The queue.
    pub queue: QueueName,
    /// The most jobs of this queue that the claim returns.
    pub slots: u32,
    /// Where the turns of a `round_robin` queue stand: what the last claim that got jobs of it returned. `None` starts
    /// at a lane chosen at random. A queue in strict order ignores it.
    pub turn: Option<Turn>,
}

/// The lane of a `round_robin` queue that was served last: the lane behind it is next.
///
/// Turns are ordered as the ring is: by actor, then by cohort, those without one first. Neither the lane nor its actor
/// need exist any more.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Turn {
    /// The lane's actor.
    pub actor: ActorName,
    /// The lane's cohort; `None` is the lane of the jobs without a fairness key.
    pub cohort: Option<FairnessKey>,
}

/// What a worker asks for.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The session.
    pub worker: WorkerId,
    /// Its queues with free slots, each with its own bound.
    pub queues: Vec<QueueSlots>,
    /// The lease that the claim renews when less than half of it is left.
    pub lease: Duration,
    /// How many candidates are looked at for each job wanted; default 2.
    pub oversample: u16,
}

/// What a claim returned.
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    /// The jobs in the order they should start.
    pub jobs: Vec<ClaimedJob>,
    /// Where the turns stand now, of each `round_robin` queue that gave jobs: to be handed to the next claim.
    pub turns: Vec<(QueueName, Turn)>,
    /// Ready jobs were left because a lock was passed over: look again in 1 to 3 ms.
    pub more: bool,
    /// When they were handed out, by the store's clock, or a moment before; `None` when there are none.
    pub at: Option<Timestamp>,
}

/// A note of progress on its way to the store.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The job.
    pub id: JobId,
    /// The attempt.
    pub epoch: Epoch,
    /// What its handler says: any JSON.
    pub progress: Json,
}

/// What a worker says when it beats.
#[derive(Clone, Debug)]
pub struct Beat {
    /// The session.
    pub worker: WorkerId,
    /// How long the session lives from now.
    pub lease: Duration,
    /// Progress of its jobs. A row that is locked is passed over.
    pub progress: Vec<Progress>,
    /// Takes or renews the leader's lease for this long; `None` leaves it alone.
    pub leadership: Option<Duration>,
}

/// What a worker is told when it beats.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BeatReply {
    /// Set when the worker is the leader now.
    pub leadership: Option<LeaderEpoch>,
    /// Attempts that someone asked to cancel.
    pub cancel: Vec<(JobId, Epoch)>,
    /// Attempts that have run longer than they may for some seconds, though no longer than a lease: they are to be
    /// stopped. They stay the worker's.
    pub overdue: Vec<(JobId, Epoch)>,
}

/// Counts the leaders; the fence of every sweep.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LeaderEpoch(pub i64);

/// A job that the store thinks a worker runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// The job.
    pub id: JobId,
    /// The attempt.
    pub epoch: Epoch,
    /// When it started.
    pub started_at: Timestamp,
}

/// Where jobs live.
///
/// Every method is batch-first and takes owned arguments. A method that returns [`StoreError::Unavailable`]
/// may have taken effect: the answer was lost, not necessarily the deed. `enqueue` and `settle` can be
/// repeated safely, since a job's id and an attempt's epoch tell a repetition.
///
/// # Cancel safety
/// Dropping a future does not take back what the store may have begun.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Writes jobs; answers in their order. A job whose id exists is `Existing`, whatever it says.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] names the first bad element; nothing is written then.
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError>;

    /// Starts a worker session.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a lease under a second or a name out of bounds.
    async fn register_worker(&self, registration: Registration) -> Result<(), StoreError>;

    /// Takes ready jobs of the worker's queues and actors.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] when the session is unknown, lost or expired, also when nothing is ready;
    /// [`StoreError::Invalid`] for a queue that the session did not register.
    async fn claim(&self, request: ClaimRequest) -> Result<Claimed, StoreError>;

    /// Records what became of attempts; answers in their order.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a malformed element; nothing is written then. A settlement that comes too
    /// late is no error but a reason.
    async fn settle(
        &self,
        worker: WorkerId,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<Settled>, StoreError>;

    /// Ends an attempt as succeeded, as [`settle`](Self::settle) would: what a handler does in a transaction of its own
    /// ([`schema`](Self::schema)), here in a transaction of the store's.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a result that is too large. What comes too late is no error but a reason.
    async fn complete(
        &self,
        worker: WorkerId,
        id: JobId,
        epoch: Epoch,
        result: Option<Json>,
    ) -> Result<Settled, StoreError>;

    /// Renews a session's lease, stores progress, takes or renews the leader's lease.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] when the session is unknown, lost or expired: it is never revived.
    async fn heartbeat(&self, beat: Beat) -> Result<BeatReply, StoreError>;

    /// Lists what the store thinks a worker runs, of the attempts started at `since` or later.
    ///
    /// # Errors
    /// Only what any call may meet.
    async fn held(&self, worker: WorkerId, since: Option<Timestamp>) -> Result<Vec<Held>, StoreError>;

    /// Ends a session: what it holds goes back without burning an attempt. Returns how many jobs went back.
    /// A session that is not there is no error.
    ///
    /// # Errors
    /// Only what any call may meet.
    async fn release_worker(&self, worker: WorkerId) -> Result<u64, StoreError>;

    /// Says which of the sweeps asked about have something to do: one question for all of them, which writes nothing.
    /// Without a `timeout` it takes as long as it takes.
    ///
    /// # Errors
    /// [`StoreError::NotLeader`] when someone else leads, [`StoreError::TimedOut`] when it took longer than it may.
    async fn sweeps_due(
        &self,
        leader: WorkerId,
        epoch: LeaderEpoch,
        probes: Vec<SweepProbe>,
        timeout: Option<Duration>,
    ) -> Result<Vec<SweepDue>, StoreError>;

    /// Runs one batch of a sweep, in a transaction of its own.
    ///
    /// # Errors
    /// [`StoreError::NotLeader`] when someone else leads, [`StoreError::TimedOut`] when the batch took longer than it
    /// may, [`StoreError::Invalid`] for a limit out of bounds or a setting that makes no sense: nothing is changed.
    /// A row that cannot be changed is no error but counted among the answer's problems.
    async fn sweep(&self, sweep: Sweep, call: SweepCall) -> Result<Swept, StoreError>;

    /// Takes running jobs from lost workers: back to be tried again, or to their end. One batch, behind `after` where the
    /// batch before says so.
    ///
    /// # Errors
    /// As [`sweep`](Self::sweep). A job that cannot be moved is no error but carries its problem.
    async fn reclaim(&self, call: SweepCall, options: ReclaimOptions) -> Result<ReclaimBatch, StoreError>;

    /// Writes down what became of sweeps, for [`sweeps`](Self::sweeps) to tell.
    ///
    /// # Errors
    /// [`StoreError::NotLeader`] when someone else leads: nothing is changed.
    async fn note_sweeps(
        &self,
        leader: WorkerId,
        epoch: LeaderEpoch,
        notes: Vec<SweepNote>,
    ) -> Result<(), StoreError>;

    /// Says how every sweep stands, in the order of [`Sweep::ALL`].
    ///
    /// # Errors
    /// Only what any call may meet.
    async fn sweeps(&self) -> Result<Vec<SweepSummary>, StoreError>;

    /// Cancels jobs: those that have not started end at once, the workers of those that run are told. Answers in the
    /// order of the ids, at most 10,000.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for too many ids. An id that does not exist is no error but an outcome.
    async fn cancel(&self, ids: Vec<JobId>, reason: Option<String>) -> Result<Vec<Cancelled>, StoreError>;

    /// Cancels the unfinished jobs that match, one batch of at most `limit` (1 to 100,000) a call: go on behind
    /// `scanned_to` until it is `None`.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a limit out of bounds.
    async fn cancel_matching(
        &self,
        jobs: JobMatch,
        limit: u32,
        after: Option<JobId>,
        reason: Option<String>,
    ) -> Result<CancelledBatch, StoreError>;

    /// Makes ended jobs ready again, archived ones too, with a fresh budget of attempts and without their deadline. Answers in
    /// the order of the ids, at most 10,000.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for too many ids. A job that has not ended, or does not exist, is no error but an outcome.
    async fn retry(&self, ids: Vec<JobId>) -> Result<Vec<Retried>, StoreError>;

    /// Makes the ended jobs that match and are not archived ready again, one batch of at most `limit` (1 to 100,000) a call: go on behind
    /// `scanned_to` until it is `None`.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a limit out of bounds.
    async fn retry_matching(
        &self,
        jobs: JobMatch,
        limit: u32,
        after: Option<JobId>,
    ) -> Result<RetriedBatch, StoreError>;

    /// Deletes jobs for good that ended long ago, archived or not, one batch of at most `limit` (1 to 100,000) a call: go on
    /// behind `scanned_to` until it is `None`.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a limit or an age out of bounds, and for a status of jobs that have not ended.
    async fn prune(&self, call: PruneCall) -> Result<PrunedBatch, StoreError>;

    /// Holds back the jobs of a queue or an actor; what runs goes on. Returns whether it was not paused before.
    ///
    /// # Errors
    /// Only what any call may meet.
    async fn pause(&self, part: LanePart) -> Result<bool, StoreError>;

    /// Hands out the jobs of a queue or an actor again. Returns whether it was paused.
    ///
    /// # Errors
    /// Only what any call may meet.
    async fn resume(&self, part: LanePart) -> Result<bool, StoreError>;

    /// Sets the mode of a queue, which need not have jobs yet. Workers follow with their next claim.
    ///
    /// Where lanes took turns and do so no more, each ready job that has a cohort is merged into its actor's lane, at
    /// most `limit` (1 to 100,000) a call: call again until the answer says that there are no more.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a limit out of bounds.
    async fn set_queue(&self, queue: QueueName, mode: QueueMode, limit: u32) -> Result<QueueSet, StoreError>;

    /// Sets what is particular to an actor, which need not have jobs yet. Returns whether anything was another before.
    ///
    /// Of jobs that have finished already, the leader changes the time at which they are archived, in batches.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a value out of bounds; nothing is written.
    async fn set_actor(&self, actor: ActorName, changes: ActorChanges) -> Result<bool, StoreError>;

    /// Lists the paused actors, by name.
    ///
    /// # Errors
    /// Only what any call may meet.
    async fn paused_actors(&self) -> Result<Vec<ActorName>, StoreError>;

    /// Lists the worker sessions, oldest first, lost ones included.
    ///
    /// # Errors
    /// Only what any call may meet.
    async fn workers(&self) -> Result<Vec<WorkerSummary>, StoreError>;

    /// Says who leads; `None` when nobody does.
    ///
    /// # Errors
    /// Only what any call may meet.
    async fn leader(&self) -> Result<Option<LeaderSummary>, StoreError>;

    /// Finds one job, among the others or in the archive.
    ///
    /// # Errors
    /// Only what any call may meet.
    async fn job(&self, id: JobId) -> Result<Option<JobRecord>, StoreError>;

    /// Lists the attempts of a job that did not end it, oldest first.
    ///
    /// # Errors
    /// Only what any call may meet.
    async fn attempts(&self, id: JobId) -> Result<Vec<AttemptRecord>, StoreError>;

    /// Lists jobs, newest id first, archived ones among them. Of archived jobs the newest 100,000 below `before` are looked at.
    ///
    /// # Errors
    /// Only what any call may meet.
    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>, StoreError>;

    /// Lists events behind a place in their feed, at most `limit` (1 to 10,000), in an order in which nothing can appear
    /// behind what was listed: events of transactions that may still be under way, and all that come after them, are
    /// told later. `None` lists nothing and says where the feed goes on from now.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a limit out of bounds.
    async fn events(&self, after: Option<EventCursor>, limit: u32) -> Result<EventPage, StoreError>;

    /// Takes a hook of ends, or renews its hold, or gives it back, and says behind which event it goes on; `None` while
    /// another has it. A new one begins with about now.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a lease out of bounds, and while the setting `event_level` leaves ends untold: then
    /// nothing is changed. Giving back needs neither.
    async fn hold_hook(&self, hold: HookHold) -> Result<Option<EventCursor>, StoreError>;

    /// Sets something for the whole store.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a value out of bounds; nothing is written.
    async fn set_setting(&self, setting: Setting) -> Result<(), StoreError>;

    /// Lists what is set, in the order of [`Setting::NAMES`].
    ///
    /// # Errors
    /// Only what any call may meet.
    async fn settings(&self) -> Result<Vec<SettingSummary>, StoreError>;

    /// Says how jobs stand, archived or not, without their payloads. Ids that do not exist are left out.
    ///
    /// # Errors
    /// Only what any call may meet.
    async fn endings(&self, ids: Vec<JobId>) -> Result<Vec<Ending>, StoreError>;

    /// Summarises the queues that have unfinished jobs, settings or live workers, by name.
    ///
    /// # Errors
    /// Only what any call may meet.
    async fn queues(&self) -> Result<Vec<QueueSummary>, StoreError>;

    /// Summarises the whole store. Counts are bounded, see [`Count`].
    ///
    /// # Errors
    /// Only what any call may meet.
    async fn stats(&self) -> Result<Stats, StoreError>;

    /// Tells those who wait that the queues have ready jobs, and the leader that something may be due: what an enqueue
    /// with `notify = none` leaves to its caller.
    ///
    /// # Errors
    /// Only what any call may meet.
    async fn wake(&self, queues: Vec<QueueName>, due: bool) -> Result<(), StoreError>;

    /// Names the database schema whose functions do what this store does, for callers with a transaction of their own;
    /// `None` when there is none to take part in.
    fn schema(&self) -> Option<&str> {
        None
    }

    /// Subscribes to wake-ups. They are hints: everything works without them, later.
    fn wakes(&self) -> Wakes;

    /// The runtime that drives the store's own work, apart from user code; `None` when it has none and runs
    /// on its caller's.
    fn runtime(&self) -> Option<tokio::runtime::Handle>;
}
