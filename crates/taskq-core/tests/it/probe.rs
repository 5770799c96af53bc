//! A store that counts, holds back and fails calls of the in-memory one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use taskq_core::client::Client;
use taskq_core::model::*;
use taskq_core::store::memory::{Clock, MemoryStore, TestClock};
use taskq_core::store::*;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

/// A call that the store received.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Enqueue,
    Register,
    Claim,
    Settle(Vec<Settlement>),
    Beat(Beat),
    Held(Option<Timestamp>),
    Release,
    SweepsDue(Vec<SweepProbe>),
    Sweep(Sweep, SweepCall),
    Reclaim(Vec<JobId>),
    Note,
    Endings,
    Events,
    Hook,
}

impl Call {
    fn name(&self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Register => "register",
            Self::Claim => "claim",
            Self::Settle(_) => "settle",
            Self::Beat(_) => "beat",
            Self::Held(_) => "held",
            Self::Release => "release",
            Self::SweepsDue(_) => "sweeps_due",
            Self::Sweep(sweep, _) => sweep.as_str(),
            Self::Reclaim(_) => "reclaim",
            Self::Note => "note_sweeps",
            Self::Endings => "endings",
            Self::Events => "events",
            Self::Hook => "hold_hook",
        }
    }
}

/// The calls that a worker makes by itself, but for its sweeps.
const WORKER_CALLS: [&str; 8] =
    ["register", "claim", "settle", "beat", "held", "release", "sweeps_due", "note_sweeps"];

/// What happens to a call instead of what it asks for.
#[derive(Debug)]
pub(crate) enum Act {
    /// It fails and does nothing.
    Fail(StoreError),
    /// It is done and its answer is lost.
    Lose,
    /// It is never answered, and does nothing.
    Hang,
    /// It is done, and its answer waits until the gate is opened.
    Hold,
}

type Fault = Box<dyn FnMut(&Call) -> Option<Act> + Send>;

#[derive(Clone)]
struct Simulated {
    clock: TestClock,
    start: Timestamp,
    began: Instant,
    ahead: Arc<Mutex<Duration>>,
}

pub(crate) struct Probe {
    inner: Arc<MemoryStore>,
    rows_are_locked: AtomicBool,
    /// A clock that follows the time of the tests' runtime, which stands still while anything runs.
    simulated: Option<Simulated>,
    calls: watch::Sender<HashMap<&'static str, usize>>,
    fault: Mutex<Option<Fault>>,
    /// Settles and enqueues pass it one by one while it is closed.
    gate: Semaphore,
    /// Fails calls after they took effect, instead of before.
    lose_answers: bool,
    runtime: Option<tokio::runtime::Handle>,
    immovable: Option<JobId>,
}

const OPEN: usize = 1 << 20;

impl Probe {
    pub(crate) fn new() -> Self {
        Self::of(Arc::new(MemoryStore::with_seed(Clock::system(), 7)), None)
    }

    /// A store whose time is the paused time of the tests' runtime.
    pub(crate) fn simulated() -> Self {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = TestClock::new(start);
        let inner = Arc::new(MemoryStore::with_seed(clock.clone(), 7));
        let ahead = Arc::new(Mutex::new(Duration::ZERO));
        Self::of(inner, Some(Simulated { clock, start, began: Instant::now(), ahead }))
    }

    /// Moves the store's clock ahead of the time of the tests' runtime.
    pub(crate) fn skip(&self, by: Duration) {
        *self.simulated.as_ref().unwrap().ahead.lock().unwrap() += by;
    }

    /// Another way to the same store, with faults of its own.
    pub(crate) fn beside(&self) -> Self {
        Self::of(Arc::clone(&self.inner), self.simulated.clone())
    }

    fn of(inner: Arc<MemoryStore>, simulated: Option<Simulated>) -> Self {
        Self {
            inner,
            rows_are_locked: AtomicBool::new(false),
            simulated,
            calls: watch::Sender::default(),
            fault: Mutex::new(None),
            gate: Semaphore::new(OPEN),
            lose_answers: false,
            runtime: None,
            immovable: None,
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

    /// Lets reclaims meet a problem with one job.
    pub(crate) fn with_immovable(mut self, job: JobId) -> Self {
        self.immovable = Some(job);
        self
    }

    pub(crate) fn shared(self) -> (Arc<Self>, Client) {
        let store = Arc::new(self);
        let client = Client::new(Arc::clone(&store) as Arc<dyn Store>);
        (store, client)
    }

    /// Lets `fault` decide which calls fail.
    pub(crate) fn fail(&self, mut fault: impl FnMut(Call) -> Option<StoreError> + Send + 'static) {
        let lose = self.lose_answers;
        self.act(move |call| {
            fault(call.clone()).map(|error| if lose { Act::Lose } else { Act::Fail(error) })
        });
    }

    /// Lets `fault` decide what happens to calls.
    pub(crate) fn act(&self, fault: impl FnMut(&Call) -> Option<Act> + Send + 'static) {
        *self.fault.lock().unwrap() = Some(Box::new(fault));
    }

    /// Lets sweeps find what is due and get nothing, as when somebody holds the locks of all of it.
    pub(crate) fn lock_rows(&self) {
        self.rows_are_locked.store(true, Ordering::SeqCst);
    }

    /// Lets every call pass.
    pub(crate) fn heal(&self) {
        *self.fault.lock().unwrap() = None;
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

    /// Counts the calls that the worker made by itself.
    pub(crate) fn worker_calls(&self) -> usize {
        let sweeps = Sweep::ALL.iter().map(|sweep| self.count(sweep.as_str()));
        sweeps.chain(WORKER_CALLS.iter().map(|call| self.count(call))).sum()
    }

    /// The store itself, at the time that it is now.
    fn store(&self) -> &MemoryStore {
        self.tick();
        &self.inner
    }

    fn tick(&self) {
        if let Some(Simulated { clock, start, began, ahead }) = &self.simulated {
            let since = began.elapsed() + *ahead.lock().unwrap();
            clock.set(start.checked_add(since).unwrap());
        }
    }

    async fn pass<T>(
        &self,
        call: Call,
        deed: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.calls.send_modify(|calls| *calls.entry(call.name()).or_default() += 1);
        let act = self.fault.lock().unwrap().as_mut().and_then(|fault| fault(&call));
        self.tick();
        match act {
            Some(Act::Fail(error)) => Err(error),
            Some(Act::Lose) => deed.await.and(Err(unavailable())),
            Some(Act::Hang) => std::future::pending().await,
            Some(Act::Hold) => {
                let answer = deed.await;
                drop(self.gate.acquire().await.unwrap());
                answer
            }
            None => deed.await,
        }
    }
}

pub(crate) fn unavailable() -> StoreError {
    StoreError::Unavailable { message: "told to be".to_owned(), source: None }
}

pub(crate) fn refused() -> StoreError {
    StoreError::Database { sqlstate: "XX000".to_owned(), message: "told to be".to_owned() }
}

#[async_trait]
impl Store for Probe {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        let deed = async {
            drop(self.gate.acquire().await.unwrap());
            self.store().enqueue(jobs).await
        };
        self.pass(Call::Enqueue, deed).await
    }

    async fn register_worker(&self, registration: Registration) -> Result<(), StoreError> {
        self.pass(Call::Register, self.inner.register_worker(registration)).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claimed, StoreError> {
        self.pass(Call::Claim, self.inner.claim(request)).await
    }

    async fn settle(
        &self,
        worker: WorkerId,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<Settled>, StoreError> {
        let call = Call::Settle(settlements.clone());
        let deed = async {
            drop(self.gate.acquire().await.unwrap());
            self.store().settle(worker, settlements).await
        };
        self.pass(call, deed).await
    }

    async fn complete(
        &self,
        worker: WorkerId,
        id: JobId,
        epoch: Epoch,
        result: Option<Json>,
    ) -> Result<Settled, StoreError> {
        self.store().complete(worker, id, epoch, result).await
    }

    async fn heartbeat(&self, beat: Beat) -> Result<BeatReply, StoreError> {
        self.pass(Call::Beat(beat.clone()), self.inner.heartbeat(beat)).await
    }

    async fn held(&self, worker: WorkerId, since: Option<Timestamp>) -> Result<Vec<Held>, StoreError> {
        self.pass(Call::Held(since), self.inner.held(worker, since)).await
    }

    async fn release_worker(&self, worker: WorkerId) -> Result<u64, StoreError> {
        self.pass(Call::Release, self.inner.release_worker(worker)).await
    }

    async fn sweeps_due(
        &self,
        leader: WorkerId,
        epoch: LeaderEpoch,
        probes: Vec<SweepProbe>,
        timeout: Option<Duration>,
    ) -> Result<Vec<SweepDue>, StoreError> {
        let call = Call::SweepsDue(probes.clone());
        self.pass(call, self.inner.sweeps_due(leader, epoch, probes, timeout)).await
    }

    async fn sweep(&self, sweep: Sweep, call: SweepCall) -> Result<Swept, StoreError> {
        let locked = self.rows_are_locked.load(Ordering::SeqCst);
        let deed = async {
            if locked {
                return Ok(Swept { due_in: Some(Duration::ZERO), ..Swept::default() });
            }
            self.inner.sweep(sweep, call.clone()).await
        };
        self.pass(Call::Sweep(sweep, call.clone()), deed).await
    }

    async fn reclaim(&self, call: SweepCall, options: ReclaimOptions) -> Result<ReclaimBatch, StoreError> {
        let skip = options.skip.clone();
        let deed = async {
            let met = self.immovable.filter(|id| !skip.contains(id));
            let skip = skip.iter().copied().chain(self.immovable).collect();
            let options = ReclaimOptions { skip, ..options };
            let mut reclaimed = self.inner.reclaim(call, options).await?;
            if let Some(id) = met
                && let Some(job) = self.inner.job(id).await?.filter(|job| job.status == Status::Running)
            {
                let problem = Some("told to be".to_owned());
                reclaimed.jobs.push(Reclaimed { id, epoch: job.epoch, status: job.status, problem });
            }
            Ok(reclaimed)
        };
        self.pass(Call::Reclaim(skip.clone()), deed).await
    }

    async fn note_sweeps(
        &self,
        leader: WorkerId,
        epoch: LeaderEpoch,
        notes: Vec<SweepNote>,
    ) -> Result<(), StoreError> {
        self.pass(Call::Note, self.inner.note_sweeps(leader, epoch, notes)).await
    }

    async fn sweeps(&self) -> Result<Vec<SweepSummary>, StoreError> {
        self.store().sweeps().await
    }

    async fn cancel(&self, ids: Vec<JobId>, reason: Option<String>) -> Result<Vec<Cancelled>, StoreError> {
        self.store().cancel(ids, reason).await
    }

    async fn cancel_matching(
        &self,
        jobs: JobMatch,
        limit: u32,
        after: Option<JobId>,
        reason: Option<String>,
    ) -> Result<CancelledBatch, StoreError> {
        self.store().cancel_matching(jobs, limit, after, reason).await
    }

    async fn retry(&self, ids: Vec<JobId>) -> Result<Vec<Retried>, StoreError> {
        self.store().retry(ids).await
    }

    async fn retry_matching(
        &self,
        jobs: JobMatch,
        limit: u32,
        after: Option<JobId>,
    ) -> Result<RetriedBatch, StoreError> {
        self.store().retry_matching(jobs, limit, after).await
    }

    async fn pause(&self, part: LanePart) -> Result<bool, StoreError> {
        self.store().pause(part).await
    }

    async fn resume(&self, part: LanePart) -> Result<bool, StoreError> {
        self.store().resume(part).await
    }

    async fn set_queue(&self, queue: QueueName, mode: QueueMode, limit: u32) -> Result<QueueSet, StoreError> {
        self.store().set_queue(queue, mode, limit).await
    }

    async fn paused_actors(&self) -> Result<Vec<ActorName>, StoreError> {
        self.store().paused_actors().await
    }

    async fn workers(&self) -> Result<Vec<WorkerSummary>, StoreError> {
        self.store().workers().await
    }

    async fn leader(&self) -> Result<Option<LeaderSummary>, StoreError> {
        self.store().leader().await
    }

    async fn job(&self, id: JobId) -> Result<Option<JobRecord>, StoreError> {
        self.store().job(id).await
    }

    async fn attempts(&self, id: JobId) -> Result<Vec<AttemptRecord>, StoreError> {
        self.store().attempts(id).await
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>, StoreError> {
        self.store().jobs(filter).await
    }

    async fn events(&self, after: Option<EventCursor>, limit: u32) -> Result<EventPage, StoreError> {
        self.pass(Call::Events, self.inner.events(after, limit)).await
    }

    async fn hold_hook(&self, hold: HookHold) -> Result<Option<EventCursor>, StoreError> {
        self.pass(Call::Hook, self.inner.hold_hook(hold)).await
    }

    async fn prune(&self, call: PruneCall) -> Result<PrunedBatch, StoreError> {
        self.store().prune(call).await
    }

    async fn set_actor(&self, actor: ActorName, changes: ActorChanges) -> Result<bool, StoreError> {
        self.store().set_actor(actor, changes).await
    }

    async fn set_setting(&self, setting: Setting) -> Result<(), StoreError> {
        self.store().set_setting(setting).await
    }

    async fn settings(&self) -> Result<Vec<SettingSummary>, StoreError> {
        self.store().settings().await
    }

    async fn endings(&self, ids: Vec<JobId>) -> Result<Vec<Ending>, StoreError> {
        self.pass(Call::Endings, self.inner.endings(ids)).await
    }

    async fn queues(&self) -> Result<Vec<QueueSummary>, StoreError> {
        self.store().queues().await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.store().stats().await
    }

    async fn wake(&self, queues: Vec<QueueName>, due: bool) -> Result<(), StoreError> {
        self.store().wake(queues, due).await
    }

    fn wakes(&self) -> Wakes {
        self.inner.wakes()
    }

    fn runtime(&self) -> Option<tokio::runtime::Handle> {
        self.runtime.clone()
    }
}
