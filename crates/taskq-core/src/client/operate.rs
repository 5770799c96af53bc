//! What operators do: cancel, retry, pause, resume, look.

use std::fmt;

use futures_util::future::BoxFuture;

use super::Client;
use crate::model::{ActorName, InvalidName, JobId, QueueName};
use crate::store::{
    Cancelled, CancelledBatch, JobMatch, LanePart, LeaderSummary, Retried, RetriedBatch, Setting,
    SettingSummary, StoreError, SweepSummary, WorkerSummary,
};

/// The most ids of one call of the store.
const IDS: usize = 10_000;
/// How many matching jobs one batch changes at most: short enough that nobody waits for its locks.
const BATCH: u32 = 1_000;

impl Client {
    /// Cancels jobs. Those that have not started end at once; the workers of those that run are told, and theirs end
    /// within the graces of the worker. Answers in the order of the ids.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be reached: some may have been cancelled all the same, and it can be
    /// repeated. An id that does not exist is no error but an outcome.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open how many of the jobs are cancelled.
    pub async fn cancel(
        &self,
        ids: impl IntoIterator<Item = JobId>,
        reason: Option<String>,
    ) -> Result<Vec<Cancelled>, StoreError> {
        let ids: Vec<_> = ids.into_iter().collect();
        let mut answers = Vec::with_capacity(ids.len());
        for ids in ids.chunks(IDS) {
            answers.extend(self.store().cancel(ids.to_vec(), reason.clone()).await?);
        }
        Ok(answers)
    }

    /// Prepares to cancel the unfinished jobs that match: await what this returns.
    pub fn cancel_matching(&self, jobs: JobMatch) -> CancelMatching {
        CancelMatching { client: self.clone(), jobs, reason: None, progress: None }
    }

    /// Makes ended jobs ready again, whatever their end, with a fresh budget of attempts and without their deadline.
    /// Answers in the order of the ids.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be reached: some may be ready all the same. A job that has not ended, or
    /// does not exist, is no error but an outcome.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open how many of the jobs are ready again.
    pub async fn retry(&self, ids: impl IntoIterator<Item = JobId>) -> Result<Vec<Retried>, StoreError> {
        let ids: Vec<_> = ids.into_iter().collect();
        let mut answers = Vec::with_capacity(ids.len());
        for ids in ids.chunks(IDS) {
            answers.extend(self.store().retry(ids.to_vec()).await?);
        }
        Ok(answers)
    }

    /// Prepares to make the ended jobs that match ready again: await what this returns.
    pub fn retry_matching(&self, jobs: JobMatch) -> RetryMatching {
        RetryMatching { client: self.clone(), jobs, progress: None }
    }

    /// Names a queue, to pause or resume it.
    pub fn queue(&self, name: impl Into<String>) -> LaneControl {
        let part = QueueName::new(name.into()).map(LanePart::Queue);
        LaneControl { client: self.clone(), part }
    }

    /// Names an actor, to pause or resume it.
    pub fn actor(&self, name: impl Into<String>) -> LaneControl {
        let part = ActorName::new(name.into()).map(LanePart::Actor);
        LaneControl { client: self.clone(), part }
    }

    /// Lists the worker sessions, oldest first, lost ones included.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot answer.
    pub async fn workers(&self) -> Result<Vec<WorkerSummary>, StoreError> {
        self.store().workers().await
    }

    /// Says which worker leads; `None` when none does.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot answer.
    pub async fn leader(&self) -> Result<Option<LeaderSummary>, StoreError> {
        self.store().leader().await
    }

    /// Says how the leader's sweeps stand: what each did last, how much waits for it, what went wrong.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot answer.
    pub async fn sweeps(&self) -> Result<Vec<SweepSummary>, StoreError> {
        self.store().sweeps().await
    }

    /// Lists what is set for the whole store.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot answer.
    pub async fn settings(&self) -> Result<Vec<SettingSummary>, StoreError> {
        self.store().settings().await
    }

    /// Sets something for the whole store. It takes effect with the next call that reads it, without a restart.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a value out of bounds; nothing is written then.
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
    /// Holds back its jobs: none is claimed any more, what runs goes on, and jobs can be enqueued. Returns whether it
    /// was not paused before.
    ///
    /// # Errors
    /// [`OperateError`] when the name is not a name, or the store cannot be reached. It can be repeated.
    pub async fn pause(&self) -> Result<bool, OperateError> {
        Ok(self.client.store().pause(self.part.clone()?).await?)
    }

    /// Hands out its jobs again, at once. Returns whether it was paused.
    ///
    /// # Errors
    /// [`OperateError`] when the name is not a name, or the store cannot be reached. It can be repeated.
    pub async fn resume(&self) -> Result<bool, OperateError> {
        Ok(self.client.store().resume(self.part.clone()?).await?)
    }
}
