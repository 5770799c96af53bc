//! The words that behaviours are written in.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use taskq_core::model::{ActorName, Enqueued, JobId, JobRecord, Json, NewJob, PAYLOAD_LIMIT, QueueName};
use taskq_core::store::Store;

use crate::Harness;

/// A minute.
pub(crate) const MINUTE: Duration = Duration::from_mins(1);
/// An hour.
pub(crate) const HOUR: Duration = Duration::from_hours(1);
/// A day.
pub(crate) const DAY: Duration = Duration::from_hours(24);
/// The lease of a worker in these tests: longer than any test takes.
pub(crate) const LEASE: Duration = Duration::from_mins(10);

/// A fresh store with its clock, and what is done to them.
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

    /// Asserts that a stored time lies in the span.
    #[track_caller]
    pub(crate) fn assert_holds(self, time: Timestamp) {
        assert!(self.from <= time && time <= self.to, "{time} is not in {self:?}");
    }
}

impl<'h> Scene<'h> {
    /// Opens the scene on a fresh harness.
    pub(crate) fn new(harness: &'h dyn Harness) -> Self {
        Self { harness, store: harness.store() }
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

    /// Enqueues jobs that must be accepted.
    pub(crate) async fn enqueue(&self, jobs: impl IntoIterator<Item = Draft>) -> Vec<Enqueued> {
        let jobs = jobs.into_iter().map(|draft| draft.0).collect();
        self.store.enqueue(jobs).await.expect("the jobs are valid")
    }

    /// Enqueues one job that must be accepted and new.
    pub(crate) async fn add(&self, job: Draft) -> JobId {
        let enqueued = self.enqueue([job]).await;
        assert_eq!(enqueued.len(), 1);
        enqueued[0].id
    }

    /// Reads a job that must be there.
    pub(crate) async fn job(&self, id: JobId) -> JobRecord {
        self.store.job(id).await.expect("reading succeeds").expect("the job is there")
    }
}

/// A job in the making: of queue `q` and actor `a` unless it says otherwise.
#[derive(Clone)]
pub(crate) struct Draft(pub(crate) NewJob);

/// Drafts a job.
pub(crate) fn draft() -> Draft {
    Draft(NewJob::new(queue("q"), actor("a"), json("{}")))
}

/// Names a queue.
pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name).expect("a valid name")
}

/// Names an actor.
pub(crate) fn actor(name: &str) -> ActorName {
    ActorName::new(name).expect("a valid name")
}

/// Makes a document.
pub(crate) fn json(text: &str) -> Json {
    Json::from_text(text.to_owned(), PAYLOAD_LIMIT).expect("valid JSON")
}
