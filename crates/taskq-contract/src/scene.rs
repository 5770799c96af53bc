//! A fresh store with its clock, and the words in which behaviours speak of them.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use taskq_core::model::{
    AttemptRecord, ClaimedJob, Enqueued, JobId, JobRecord, OutcomeKind, Status, WorkerId,
};
use taskq_core::store::{
    CancelOutcome, Cancelled, LeaderEpoch, QueueSummary, Reclaimed, Retried, Stats, Store, StoreError, Sweep,
    SweepCall, Swept, Wakes, WorkerSummary,
};

use crate::Harness;
use crate::draft::Draft;
use crate::leading::Leading;
use crate::worker::{LEASE, Worker};

/// A minute.
pub(crate) const MINUTE: Duration = Duration::from_mins(1);
/// An hour.
pub(crate) const HOUR: Duration = Duration::from_hours(1);
/// A day.
pub(crate) const DAY: Duration = Duration::from_hours(24);

/// A fresh store with its clock.
pub(crate) struct Scene<'h> {
    harness: &'h dyn Harness,
    /// The store under test.
    pub(crate) store: Arc<dyn Store>,
}

/// Between which readings of the clock something happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    from: Timestamp,
    to: Timestamp,
}

impl Span {
    /// The span a while later.
    pub(crate) fn later(self, by: Duration) -> Self {
        Self { from: self.from + by, to: self.to + by }
    }

    /// The span that begins a while after the start of this one and ends a while after its end.
    pub(crate) fn later_by(self, least: Duration, most: Duration) -> Self {
        Self { from: self.from + least, to: self.to + most }
    }

    /// Asserts that a stored time lies in the span.
    #[track_caller]
    pub(crate) fn assert_holds(self, time: impl Into<Option<Timestamp>>) {
        let time = time.into().expect("a time is stored");
        assert!(self.from <= time && time <= self.to, "{time} is not in {self:?}");
    }
}

impl<'h> Scene<'h> {
    /// Opens the scene on a fresh harness.
    pub(crate) fn new(harness: &'h dyn Harness) -> Self {
        Self { harness, store: harness.store() }
    }

    /// Listens for wake-ups.
    pub(crate) fn wakes(&self) -> Wakes {
        self.harness.wakes()
    }

    /// The store with the rights of an operator.
    pub(crate) async fn operator(&self) -> Arc<dyn Store> {
        self.harness.operator().await
    }

    /// Reads the store's clock.
    pub(crate) async fn now(&self) -> Timestamp {
        self.harness.now().await
    }

    /// Moves the store's clock.
    pub(crate) async fn advance(&self, by: Duration) {
        self.harness.advance(by).await;
    }

    /// Awaits something and says between which readings of the clock it happened.
    pub(crate) async fn during<T>(&self, deed: impl Future<Output = T>) -> (T, Span) {
        let from = self.now().await;
        let answer = deed.await;
        (answer, Span { from, to: self.now().await })
    }

    /// Tries to enqueue jobs.
    pub(crate) async fn try_enqueue(
        &self,
        jobs: impl IntoIterator<Item = Draft>,
    ) -> Result<Vec<Enqueued>, StoreError> {
        self.store.enqueue(jobs.into_iter().map(|draft| draft.0).collect()).await
    }

    /// Enqueues jobs that must be accepted.
    pub(crate) async fn enqueue(&self, jobs: impl IntoIterator<Item = Draft>) -> Vec<Enqueued> {
        self.try_enqueue(jobs).await.expect("the jobs are valid")
    }

    /// Enqueues jobs that must be accepted and returns their ids.
    pub(crate) async fn add_all(&self, jobs: impl IntoIterator<Item = Draft>) -> Vec<JobId> {
        self.enqueue(jobs).await.into_iter().map(|enqueued| enqueued.id).collect()
    }

    /// Enqueues one job that must be accepted.
    pub(crate) async fn add(&self, job: Draft) -> JobId {
        self.add_all([job]).await[0]
    }

    /// Registers a worker for queue `q` and actor `a`.
    pub(crate) async fn worker(&self) -> Worker<'_> {
        self.worker_for(&["q"], &["a"]).await
    }

    /// Registers a worker.
    pub(crate) async fn worker_for(&self, queues: &[&str], actors: &[&str]) -> Worker<'_> {
        Worker::register(self, queues, actors).await
    }

    /// Enqueues a job of queue `q` and actor `a` and lets a worker of its own claim it, and no other.
    pub(crate) async fn running(&self, job: Draft) -> (Worker<'_>, ClaimedJob) {
        let worker = self.worker().await;
        let id = self.add(job).await;
        let claimed = worker.claim_one().await;
        assert_eq!(claimed.id, id, "the job is the only one that is ready");
        (worker, claimed)
    }

    /// Enqueues a job, lets a worker of its own claim it, and lets that worker's lease end.
    pub(crate) async fn expired(&self, job: Draft) -> (Worker<'_>, ClaimedJob) {
        let running = self.running(job).await;
        self.advance(LEASE).await;
        running
    }

    /// Registers a worker that leads.
    pub(crate) async fn leading(&self) -> Leading<'_> {
        Leading::begin(self).await
    }

    /// Tries to make due jobs ready as this worker under this epoch.
    pub(crate) async fn promote(
        &self,
        leader: WorkerId,
        epoch: LeaderEpoch,
        limit: u32,
    ) -> Result<Swept, StoreError> {
        self.store.sweep(Sweep::Promote, SweepCall::new(leader, epoch, limit)).await
    }

    /// Lets a leader make every due job ready.
    pub(crate) async fn promote_all(&self) {
        let leader = self.leading().await;
        leader.sweep(Sweep::Promote).await;
        leader.step_down().await;
    }

    /// Lets a leader take every job from the workers whose lease has ended. The jobs come by id.
    pub(crate) async fn rescue(&self) -> Vec<Reclaimed> {
        let leader = self.leading().await;
        leader.mark_lost().await;
        let reclaimed = leader.reclaim().await;
        leader.step_down().await;
        reclaimed
    }

    /// Cancels jobs without a reason.
    pub(crate) async fn cancel(&self, ids: &[JobId]) -> Vec<Cancelled> {
        self.store.cancel(ids.to_vec(), None).await.expect("not too many ids")
    }

    /// Asks to cancel a job that runs.
    pub(crate) async fn request_cancel(&self, id: JobId) {
        let status = Some(Status::Running);
        assert_eq!(self.cancel(&[id]).await, [Cancelled { id, outcome: CancelOutcome::Requested, status }]);
    }

    /// Makes ended jobs ready again.
    pub(crate) async fn retry(&self, ids: &[JobId]) -> Vec<Retried> {
        self.store.retry(ids.to_vec()).await.expect("not too many ids")
    }

    /// Reads a job that must be there.
    pub(crate) async fn job(&self, id: JobId) -> JobRecord {
        self.store.job(id).await.expect("reading succeeds").expect("the job is there")
    }

    /// Reads the status of a job that must be there.
    pub(crate) async fn status(&self, id: JobId) -> Status {
        self.job(id).await.status
    }

    /// Reads the attempts that did not end a job.
    pub(crate) async fn attempts(&self, id: JobId) -> Vec<AttemptRecord> {
        self.store.attempts(id).await.expect("reading succeeds")
    }

    /// Reads what became of the attempts that did not end a job: epoch, number and outcome.
    pub(crate) async fn told(&self, id: JobId) -> Vec<(i64, i32, OutcomeKind)> {
        let attempts = self.attempts(id).await;
        attempts.into_iter().map(|attempt| (attempt.epoch.0, attempt.attempt, attempt.outcome)).collect()
    }

    /// Reads the summaries of the queues.
    pub(crate) async fn queues(&self) -> Vec<QueueSummary> {
        self.store.queues().await.expect("reading succeeds")
    }

    /// Reads every worker session.
    pub(crate) async fn workers(&self) -> Vec<WorkerSummary> {
        self.store.workers().await.expect("reading succeeds")
    }

    /// Reads the summary of the store.
    pub(crate) async fn stats(&self) -> Stats {
        self.store.stats().await.expect("reading succeeds")
    }
}

/// Asserts that a call was refused for what was supplied, and which element it named.
#[track_caller]
pub(crate) fn assert_invalid<T: Debug>(answer: Result<T, StoreError>, element: Option<usize>) {
    match answer {
        Err(StoreError::Invalid { index, message }) => {
            assert_eq!(index, element, "{message}");
            assert!(!message.is_empty());
        }
        other => panic!("expected a refusal of what was supplied, met {other:?}"),
    }
}

/// Asserts that a call was refused because the session's lease is lost.
#[track_caller]
pub(crate) fn assert_lease_lost<T: Debug>(answer: Result<T, StoreError>) {
    match answer {
        Err(StoreError::LeaseLost { .. }) => {}
        other => panic!("expected a lost lease, met {other:?}"),
    }
}

/// Asserts that a call was refused because someone else leads.
#[track_caller]
pub(crate) fn assert_not_leader<T: Debug>(answer: Result<T, StoreError>) {
    match answer {
        Err(StoreError::NotLeader { .. }) => {}
        other => panic!("expected not to lead, met {other:?}"),
    }
}
