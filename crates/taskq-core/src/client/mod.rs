//! The client: enqueues jobs, waits for them, and does what operators ask.

mod coalesce;
mod enqueue;
mod error;
mod events;
mod handle;
mod job;
mod operate;
mod queue;
mod waiter;

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use enqueue::Enqueue;
pub use error::{EnqueueError, WaitError};
pub use events::Events;
pub use handle::JobHandle;
pub use job::Job;
pub use operate::{CancelMatching, CancelTotals, LaneControl, OperateError, RetryMatching, RetryTotals};
pub use queue::{QueueChange, SetQueue};

use crate::model::{Enqueued, JobId, NewJob, Status};
use crate::store::{Ending, Store, StoreError};
use coalesce::Coalescer;
use waiter::Waiter;

/// How long an enqueue with an idempotency key waits for another of the same key.
const BUSY_LIMIT: Duration = Duration::from_secs(5);

/// Enqueues jobs and waits for them. Cheap to clone; clones share their round trips.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    coalescer: Arc<Coalescer>,
    waiter: Arc<Waiter>,
}

impl Client {
    /// Makes a client of a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let coalescer = Coalescer::new(Arc::clone(&store));
        let waiter = Waiter::new(Arc::clone(&store));
        Self { inner: Arc::new(Inner { store, coalescer, waiter }) }
    }

    /// Returns the store, which answers what operators ask.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Prepares a job: await what this returns to enqueue it.
    ///
    /// Calls that come while another call of this client is in flight are written together by the next one; a
    /// call alone is never delayed. A call whose answer is lost is repeated once.
    pub fn enqueue<J: Job>(&self, job: &J) -> Enqueue<J> {
        Enqueue::new(self.clone(), job)
    }

    /// Enqueues many jobs in one call: all of them or, when one is refused, none.
    ///
    /// A call whose answer is lost is repeated once.
    ///
    /// # Errors
    /// [`EnqueueError::Element`] names the first job that is refused.
    ///
    /// # Cancel safety
    /// Dropping the future before it is done leaves it open whether the jobs are written.
    pub async fn enqueue_many<J: Job>(
        &self,
        jobs: impl IntoIterator<Item = impl Borrow<J>>,
    ) -> Result<Vec<JobHandle<J>>, EnqueueError> {
        let element = |(index, job): (usize, _)| {
            enqueue::new_job::<J>(Borrow::borrow(&job))
                .map_err(|error| EnqueueError::Element { index, error: Box::new(error) })
        };
        // Made before the first await, so that neither the iterator nor its items need to be `Send`.
        let jobs = jobs.into_iter().enumerate().map(element).collect::<Result<Vec<_>, _>>()?;
        let enqueued = self.enqueue_raw(jobs).await?;
        let handle = |enqueued: Enqueued| JobHandle::new(enqueued.id, self.clone(), Some(enqueued.outcome));
        Ok(enqueued.into_iter().map(handle).collect())
    }

    /// Enqueues jobs without a Rust type in one call: all of them or, when one is refused, none. Answers in
    /// their order.
    ///
    /// A call whose answer is lost is repeated once; a job that the lost call had written is answered as
    /// `Existing` then, as is any job whose id was there before.
    ///
    /// # Errors
    /// [`EnqueueError::Element`] names the first job that the store refuses.
    ///
    /// # Cancel safety
    /// Dropping the future before it is done leaves it open whether the jobs are written.
    pub async fn enqueue_raw(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, EnqueueError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let store = &self.inner.store;
        let mut result = store.enqueue(jobs.clone()).await;
        if matches!(&result, Err(error) if error.is_transient()) {
            result = store.enqueue(jobs).await;
        }
        result.map_err(EnqueueError::of_many)
    }

    /// Makes a handle for a job that was enqueued elsewhere. Whether it exists shows when it is asked.
    pub fn handle<J: Job>(&self, id: JobId) -> JobHandle<J> {
        JobHandle::new(id, self.clone(), None)
    }

    /// Waits until a job has ended, whatever its type, for at most `timeout` (`None` waits without end).
    ///
    /// Polls as [`JobHandle::wait`] does, and together with it.
    ///
    /// # Errors
    /// [`WaitError::NotFound`] when there is no such job, [`WaitError::Timeout`] when it has not ended in time,
    /// [`WaitError::Store`] when the store refuses to answer. How the job ended is no error here.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_for(&self, id: JobId, timeout: Option<Duration>) -> Result<Ending, WaitError> {
        let wait = self.inner.waiter.wait(id);
        let answer = match timeout {
            Some(timeout) => tokio::time::timeout(timeout, wait).await.map_err(|_| WaitError::Timeout)?,
            None => wait.await,
        };
        answer.map_err(WaitError::Store)?.ok_or(WaitError::NotFound)
    }

    /// Asks where a job stands.
    ///
    /// # Errors
    /// [`WaitError::NotFound`] when there is no such job, [`WaitError::Store`] when the store cannot answer.
    pub async fn status(&self, id: JobId) -> Result<Status, WaitError> {
        let endings = self.inner.store.endings(vec![id]).await;
        let endings = endings.map_err(|error| WaitError::Store(Arc::new(error)))?;
        endings.first().map(|ending| ending.status).ok_or(WaitError::NotFound)
    }

    async fn enqueue_one(&self, job: NewJob) -> Result<Enqueued, EnqueueError> {
        let Some(key) = job.idempotency_key.clone() else {
            return Ok(self.inner.coalescer.enqueue(job).await?);
        };
        // Apart from the others, who shall not wait where this one may have to.
        let write = coalesce::enqueue_one(self.store().as_ref(), job);
        match tokio::time::timeout(BUSY_LIMIT, write).await {
            Err(_) | Ok(Err(StoreError::Busy { .. })) => Err(EnqueueError::Busy { key }),
            Ok(written) => Ok(written?),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
