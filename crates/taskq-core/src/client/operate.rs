//! What operators do: cancel, retry, pause, resume, look.

use std::fmt;

use futures_util::future::BoxFuture;

use super::Client;
use crate::model::{InvalidName, JobId};
use crate::store::{
    Cancelled, CancelledBatch, JobMatch, LanePart, LeaderSummary, Retried, RetriedBatch, Setting,
    SettingSummary, StoreError, SweepSummary, WorkerSummary,
};

/// The most ids of one call of the store.
const IDS: usize = 10_000;
/// How many matching jobs one batch changes at most: short enough that nobody waits for its locks.
const BATCH: u32 = 1_000;

impl Client {
    /// Prepares to cancel jobs: await what this returns. Those that have not started end at once; the workers of those
    /// that run are told, and theirs end within the graces of the worker.
    pub fn cancel(&self, ids: impl IntoIterator<Item = JobId>, reason: Option<String>) -> Cancel {
        Cancel { client: self.clone(), ids: ids.into_iter().collect(), reason }
    }

    /// Prepares to cancel the unfinished jobs that match: await what this returns.
    pub fn cancel_matching(&self, jobs: JobMatch) -> CancelMatching {
        CancelMatching { client: self.clone(), jobs, reason: None, progress: None }
    }

    /// Prepares to make ended jobs ready again, whatever their end and archived or not, with a fresh budget of attempts and
    /// without their deadline: await what this returns.
    pub fn retry(&self, ids: impl IntoIterator<Item = JobId>) -> Retry {
        Retry { client: self.clone(), ids: ids.into_iter().collect() }
    }

    /// Prepares to make the ended jobs that match ready again: await what this returns. Archived ones are left alone; their
    /// ids name them.
    pub fn retry_matching(&self, jobs: JobMatch) -> RetryMatching {
        RetryMatching { client: self.clone(), jobs, progress: None }
    }

    /// Lists the worker sessions, oldest first, lost ones included.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot answer.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn workers(&self) -> Result<Vec<WorkerSummary>, StoreError> {
        self.store().workers().await
    }

    /// Says which worker leads; `None` when none does.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot answer.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn leader(&self) -> Result<Option<LeaderSummary>, StoreError> {
        self.store().leader().await
    }

    /// Says how the leader's sweeps stand: what each did last, how much waits for it, what went wrong.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot answer.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn sweeps(&self) -> Result<Vec<SweepSummary>, StoreError> {
        self.store().sweeps().await
    }

    /// Lists what is set for the whole store.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot answer.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn settings(&self) -> Result<Vec<SettingSummary>, StoreError> {
        self.store().settings().await
    }

    /// Sets something for the whole store. It takes effect with the next call that reads it, without a restart.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a value out of bounds; nothing is written then.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether it is done; it can be repeated.
    pub async fn set(&self, setting: Setting) -> Result<(), StoreError> {
        self.store().set_setting(setting).await
    }
}

/// What a cancellation by filter has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CancelTotals {
    /// Jobs that had not started and have ended now.
    pub cancelled: u64,
    /// Jobs that run and whose workers were told.
    pub requested: u64,
}

/// What a retry by filter has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RetryTotals {
    /// Jobs that are ready again.
    pub retried: u64,
}

/// A cancellation by id: await it. Answers in the order of the ids.
///
/// Fails with a [`StoreError`] when the store cannot be reached: some may have been cancelled all the same, and it can
/// be repeated. An id that does not exist is no error but an outcome.
///
/// # Cancel safety
/// Dropping the future leaves it open how many of the jobs are cancelled.
#[must_use = "jobs are cancelled only when this is awaited"]
#[derive(Clone)]
pub struct Cancel {
    client: Client,
    ids: Vec<JobId>,
    reason: Option<String>,
}

impl Cancel {
    /// Returns the client that it was prepared with.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the jobs and the reason, for whoever cancels in a transaction of their own.
    pub fn into_parts(self) -> (Vec<JobId>, Option<String>) {
        (self.ids, self.reason)
    }
}

impl IntoFuture for Cancel {
    type Output = Result<Vec<Cancelled>, StoreError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(self.ids.len());
            for ids in self.ids.chunks(IDS) {
                answers.extend(self.client.store().cancel(ids.to_vec(), self.reason.clone()).await?);
            }
            Ok(answers)
        })
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").field("ids", &self.ids).finish_non_exhaustive()
    }
}

/// A retry by id: await it. Answers in the order of the ids.
///
/// Fails with a [`StoreError`] when the store cannot be reached: some may be ready all the same. A job that has not
/// ended, or does not exist, is no error but an outcome.
///
/// # Cancel safety
/// Dropping the future leaves it open how many of the jobs are ready again.
#[must_use = "jobs are ready again only when this is awaited"]
#[derive(Clone)]
pub struct Retry {
    client: Client,
    ids: Vec<JobId>,
}

impl Retry {
    /// Returns the client that it was prepared with.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the jobs, for whoever retries them in a transaction of their own.
    pub fn into_ids(self) -> Vec<JobId> {
        self.ids
    }
}

impl IntoFuture for Retry {
    type Output = Result<Vec<Retried>, StoreError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(self.ids.len());
            for ids in self.ids.chunks(IDS) {
                answers.extend(self.client.store().retry(ids.to_vec()).await?);
            }
            Ok(answers)
        })
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry").field("ids", &self.ids).finish_non_exhaustive()
    }
}

type Progress<T> = Box<dyn FnMut(T) + Send>;

/// A cancellation by filter: await it. It goes through the jobs in batches, each committed by itself.
///
/// Fails with a [`StoreError`] when the store cannot be reached; what was cancelled by then stays so, and it can be
/// repeated.
///
/// # Cancel safety
/// Dropping the future stops it after the batch in flight.
#[must_use = "jobs are cancelled only when this is awaited"]
pub struct CancelMatching {
    client: Client,
    jobs: JobMatch,
    reason: Option<String>,
    progress: Option<Progress<CancelTotals>>,
}

impl CancelMatching {
    /// Records why.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Tells how far it is, after each batch.
    pub fn on_progress(mut self, progress: impl FnMut(CancelTotals) + Send + 'static) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }
}

impl IntoFuture for CancelMatching {
    type Output = Result<CancelTotals, StoreError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            let (mut totals, mut after) = (CancelTotals::default(), None);
            loop {
                let batch =
                    self.client.store().cancel_matching(self.jobs.clone(), BATCH, after, self.reason.clone());
                let CancelledBatch { cancelled, requested, scanned_to } = batch.await?;
                totals.cancelled += cancelled;
                totals.requested += requested;
                if let Some(progress) = &mut self.progress {
                    progress(totals);
                }
                if scanned_to.is_none() {
                    return Ok(totals);
                }
                after = scanned_to;
            }
        })
    }
}

impl fmt::Debug for CancelMatching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelMatching").field("jobs", &self.jobs).finish_non_exhaustive()
    }
}

/// A retry by filter: await it. It goes through the jobs in batches, each committed by itself.
///
/// Fails with a [`StoreError`] when the store cannot be reached; what is ready by then stays so.
///
/// # Cancel safety
/// Dropping the future stops it after the batch in flight.
#[must_use = "jobs are ready again only when this is awaited"]
pub struct RetryMatching {
    client: Client,
    jobs: JobMatch,
    progress: Option<Progress<RetryTotals>>,
}

impl RetryMatching {
    /// Tells how far it is, after each batch.
    pub fn on_progress(mut self, progress: impl FnMut(RetryTotals) + Send + 'static) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }
}

impl IntoFuture for RetryMatching {
    type Output = Result<RetryTotals, StoreError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            let (mut totals, mut after) = (RetryTotals::default(), None);
            loop {
                let batch = self.client.store().retry_matching(self.jobs.clone(), BATCH, after);
                let RetriedBatch { retried, scanned_to } = batch.await?;
                totals.retried += retried;
                if let Some(progress) = &mut self.progress {
                    progress(totals);
                }
                if scanned_to.is_none() {
                    return Ok(totals);
                }
                after = scanned_to;
            }
        })
    }
}

impl fmt::Debug for RetryMatching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryMatching").field("jobs", &self.jobs).finish_non_exhaustive()
    }
}

/// A queue or an actor, to be paused or resumed.
#[derive(Clone, Debug)]
pub struct LaneControl {
    client: Client,
    part: Result<LanePart, InvalidName>,
}

/// Why a queue or an actor was not paused, resumed or set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperateError {
    /// Its name is not a name.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The store could not be reached, or refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl LaneControl {
    pub(super) fn new(client: Client, part: Result<LanePart, InvalidName>) -> Self {
        Self { client, part }
    }

    /// Holds back its jobs: none is claimed any more, what runs goes on, and jobs can be enqueued. Returns whether it
    /// was not paused before.
    ///
    /// # Errors
    /// [`OperateError`] when the name is not a name, or the store cannot be reached. It can be repeated.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether it is done; it can be repeated.
    pub async fn pause(&self) -> Result<bool, OperateError> {
        Ok(self.client.store().pause(self.part.clone()?).await?)
    }

    /// Hands out its jobs again, at once. Returns whether it was paused.
    ///
    /// # Errors
    /// [`OperateError`] when the name is not a name, or the store cannot be reached. It can be repeated.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether it is done; it can be repeated.
    pub async fn resume(&self) -> Result<bool, OperateError> {
        Ok(self.client.store().resume(self.part.clone()?).await?)
    }
}
