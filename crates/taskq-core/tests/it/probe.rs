//! A store that counts, holds back and fails calls of the in-memory one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use taskq_core::client::Client;
use taskq_core::model::*;
use taskq_core::store::memory::{Clock, MemoryStore};
use taskq_core::store::*;
use tokio::sync::{Semaphore, watch};

/// What happens to a call of one kind.
type Fault = Box<dyn FnMut(Call) -> Option<StoreError> + Send>;

/// A call that the store received.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Enqueue,
    Register,
    Claim,
    Settle(Vec<Settlement>),
    Beat,
    Release,
    Promote,
    Endings,
}

pub(crate) struct Probe {
    inner: MemoryStore,
    calls: watch::Sender<HashMap<&'static str, usize>>,
    fault: Mutex<Option<Fault>>,
    /// Settles and enqueues pass it one by one while it is closed.
    gate: Semaphore,
    /// Fails calls after they took effect, instead of before.
    lose_answers: bool,
    runtime: Option<tokio::runtime::Handle>,
}

const OPEN: usize = 1 << 20;

impl Probe {
    pub(crate) fn new() -> Self {
        Self {
            inner: MemoryStore::with_seed(Clock::system(), 7),
            calls: watch::Sender::default(),
            fault: Mutex::new(None),
            gate: Semaphore::new(OPEN),
            lose_answers: false,
            runtime: None,
        }
    }

    pub(crate) fn losing_answers(mut self) -> Self {
        self.lose_answers = true;
        self
    }

    pub(crate) fn on(mut self, runtime: tokio::runtime::Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    pub(crate) fn shared(self) -> (Arc<Self>, Client) {
        let store = Arc::new(self);
        let client = Client::new(Arc::clone(&store) as Arc<dyn Store>);
        (store, client)
    }

    /// Lets `fault` decide which calls fail.
    pub(crate) fn fail(&self, fault: impl FnMut(Call) -> Option<StoreError> + Send + 'static) {
        *self.fault.lock().unwrap() = Some(Box::new(fault));
    }

    /// Holds settles and enqueues back until [`open`](Self::open).
    pub(crate) fn close(&self) {
        assert_eq!(self.gate.forget_permits(OPEN), OPEN);
    }

    pub(crate) fn open(&self) {
        self.gate.add_permits(OPEN);
    }

    pub(crate) fn count(&self, call: &'static str) -> usize {
        self.calls.borrow().get(call).copied().unwrap_or(0)
    }

    async fn pass<T>(
        &self,
        name: &'static str,
        call: Call,
        deed: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.calls.send_modify(|calls| *calls.entry(name).or_default() += 1);
        let fault = self.fault.lock().unwrap().as_mut().and_then(|fault| fault(call));
        match fault {
            Some(error) if self.lose_answers => deed.await.and(Err(error)),
            Some(error) => Err(error),
            None => deed.await,
        }
    }
}

pub(crate) fn unavailable() -> StoreError {
    StoreError::Unavailable { message: "told to be".to_owned(), source: None }
}

#[async_trait]
impl Store for Probe {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        let deed = async {
            drop(self.gate.acquire().await.unwrap());
            self.inner.enqueue(jobs).await
        };
        self.pass("enqueue", Call::Enqueue, deed).await
    }

    async fn register_worker(&self, registration: Registration) -> Result<(), StoreError> {
        self.pass("register", Call::Register, self.inner.register_worker(registration)).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claimed, StoreError> {
        self.pass("claim", Call::Claim, self.inner.claim(request)).await
    }

    async fn settle(
        &self,
        worker: WorkerId,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<Settled>, StoreError> {
        let call = Call::Settle(settlements.clone());
        let deed = async {
            drop(self.gate.acquire().await.unwrap());
            self.inner.settle(worker, settlements).await
        };
        self.pass("settle", call, deed).await
    }

    async fn heartbeat(&self, beat: Beat) -> Result<BeatReply, StoreError> {
        self.pass("beat", Call::Beat, self.inner.heartbeat(beat)).await
    }

    async fn held(&self, worker: WorkerId, since: Option<Timestamp>) -> Result<Vec<Held>, StoreError> {
        self.inner.held(worker, since).await
    }

    async fn release_worker(&self, worker: WorkerId) -> Result<u64, StoreError> {
        self.pass("release", Call::Release, self.inner.release_worker(worker)).await
    }

    async fn promote(
        &self,
        leader: WorkerId,
        epoch: LeaderEpoch,
        limit: u32,
    ) -> Result<Promoted, StoreError> {
        self.pass("promote", Call::Promote, self.inner.promote(leader, epoch, limit)).await
    }

    async fn job(&self, id: JobId) -> Result<Option<JobRecord>, StoreError> {
        self.inner.job(id).await
    }

    async fn attempts(&self, id: JobId) -> Result<Vec<AttemptRecord>, StoreError> {
        self.inner.attempts(id).await
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>, StoreError> {
        self.inner.jobs(filter).await
    }

    async fn endings(&self, ids: Vec<JobId>) -> Result<Vec<Ending>, StoreError> {
        self.pass("endings", Call::Endings, self.inner.endings(ids)).await
    }

    async fn queues(&self) -> Result<Vec<QueueSummary>, StoreError> {
        self.inner.queues().await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.inner.stats().await
    }

    fn wakes(&self) -> Wakes {
        self.inner.wakes()
    }

    fn runtime(&self) -> Option<tokio::runtime::Handle> {
        self.runtime.clone()
    }
}
