//! The client: enqueues jobs, waits for them, and does what operators ask.

mod coalesce;
mod enqueue;
mod error;
mod events;
mod handle;
mod handles;
mod job;
mod operate;
mod prune;
mod queue;
mod waiter;
mod wake;

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use enqueue::{Enqueue, EnqueueMany, EnqueueRaw, Prepared, PreparedMany};
pub use error::{Absence, EnqueueError, WaitError};
pub use events::Events;
pub use handle::JobHandle;
pub use handles::{ActorHandle, QueueHandle, SessionHandle};
pub use job::Job;
pub use operate::{
    Cancel, CancelMatching, CancelTotals, LaneControl, OperateError, Retry, RetryMatching, RetryTotals,
};
pub use prune::{Prune, PruneTotals};
pub use queue::{QueueChange, SetQueue};
pub use wake::WakeToken;

use crate::model::{Enqueued, JobId, NewJob, Status};
use crate::store::{Ending, Store, StoreError};
use coalesce::Coalescer;
use waiter::{NoEnding, Waiter};

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

    /// Prepares jobs of one type to be enqueued in one call, all of them or none: await what this returns.
    pub fn enqueue_many<J: Job>(&self, jobs: impl IntoIterator<Item = impl Borrow<J>>) -> EnqueueMany<J> {
        EnqueueMany::new(self.clone(), jobs)
    }

    /// Prepares enqueues of one type, each with what was said of it, to be made in one call, all of them or none: await
    /// what this returns.
    ///
    /// An idempotency key needs its [`on_finished`](Enqueue::on_finished) here, since one job of many cannot fail by
    /// itself; else the call fails with [`EnqueueError::NotSaid`].
    pub fn enqueue_all<J: Job>(&self, jobs: impl IntoIterator<Item = Enqueue<J>>) -> EnqueueMany<J> {
        EnqueueMany::of_prepared(self.clone(), jobs)
    }

    /// Prepares jobs without a Rust type to be enqueued in one call, all of them or none: await what this returns.
    pub fn enqueue_raw(&self, jobs: Vec<NewJob>) -> EnqueueRaw {
        EnqueueRaw::new(self.clone(), jobs)
    }

    async fn write(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, EnqueueError> {
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
        JobHandle::of(self.clone(), id)
    }

    /// Waits until a job has ended, whatever its type, for at most `timeout` (`None` waits without end).
    ///
    /// Polls as [`JobHandle::wait`] does, and together with it.
    ///
    /// # Errors
    /// [`WaitError::Absent`] when there is no such job, [`WaitError::Timeout`] when it has not ended in time,
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
        answer.map_err(|error| match error {
            NoEnding::Never => WaitError::Absent(Absence::NeverExisted),
            // Nothing but a success takes a job away.
            NoEnding::NoMore => WaitError::Absent(Absence::NotKept),
            NoEnding::Store(error) => WaitError::Store(error),
        })
    }

    /// Asks where a job stands.
    ///
    /// # Errors
    /// [`WaitError::Absent`] when there is no such job, [`WaitError::Store`] when the store cannot answer.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn status(&self, id: JobId) -> Result<Status, WaitError> {
        let endings = self.inner.store.endings(vec![id]).await;
        let endings = endings.map_err(|error| WaitError::Store(Arc::new(error)))?;
        endings.first().map(|ending| ending.status).ok_or(WaitError::Absent(Absence::NeverExisted))
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
