//! The in-memory store: the readable specification of what every store does.
//!
//! One file a family of verbs, each an `impl State` that runs under one lock with one reading of the clock,
//! so every call is atomic. PostgreSQL is the reference where the two differ.

mod archive;
mod cancel;
mod claim;
mod clock;
mod enqueue;
mod events;
mod hints;
mod hooks;
mod keys;
mod leader;
mod matching;
mod pause;
mod query;
mod rescue;
mod retry;
mod settings;
mod settle;
mod state;
mod sweeps;
#[cfg(test)]
mod tests;
mod turns;
mod validate;
mod workers;

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::broadcast;

pub use clock::{Clock, TestClock};
pub(crate) use validate::job as check_job;

use super::{
    ActorChanges, Beat, BeatReply, Cancelled, CancelledBatch, ClaimRequest, Claimed, Ending, EventPage, Held,
    HookHold, JobFilter, JobMatch, LanePart, LeaderEpoch, LeaderSummary, PruneCall, PrunedBatch, QueueMode,
    QueueSet, QueueSummary, ReclaimBatch, ReclaimOptions, Registration, Retried, RetriedBatch, Setting,
    SettingSummary, Stats, Store, StoreError, Sweep, SweepCall, SweepDue, SweepNote, SweepProbe,
    SweepSummary, Swept, Wake, Wakes, WorkerSummary,
};
use crate::model::{
    ActorName, AttemptRecord, Enqueued, Epoch, EventCursor, JobId, JobRecord, Json, NewJob, Outcome,
    QueueName, Settled, Settlement, WorkerId,
};
use state::State;

/// How many hints a subscription may fall behind before it is told to look at everything.
const WAKES_KEPT: usize = 1024;

/// A store that lives and dies with the process, for tests of handlers and as the specification of the
/// semantics.
///
/// It keeps times and durations in whole microseconds, as PostgreSQL does, and everything it stores until it
/// is dropped.
pub struct MemoryStore {
    clock: Clock,
    state: Mutex<State>,
    wakes: broadcast::Sender<Wake>,
}

impl MemoryStore {
    /// Makes an empty store under a clock.
    pub fn new(clock: impl Into<Clock>) -> Self {
        Self::with_random(clock, fastrand::Rng::new())
    }

    /// Makes an empty store whose jitter of retry delays repeats with the seed.
    pub fn with_seed(clock: impl Into<Clock>, seed: u64) -> Self {
        Self::with_random(clock, fastrand::Rng::with_seed(seed))
    }

    fn with_random(clock: impl Into<Clock>, random: fastrand::Rng) -> Self {
        Self {
            clock: clock.into(),
            state: Mutex::new(State::new(random)),
            wakes: broadcast::Sender::new(WAKES_KEPT),
        }
    }

    /// Runs one verb: under the lock, at one time, and then sends the hints that it left.
    fn verb<T>(&self, deed: impl FnOnce(&mut State, Timestamp) -> T) -> T {
        let mut state = self.state.lock().expect("no verb panics while it holds the state");
        // Read under the lock, so that later calls never see earlier times.
        state.events.begin();
        let answer = deed(&mut state, self.clock.now());
        for wake in state.hints.take() {
            // Nobody listens: a hint is lost by right.
            let _ = self.wakes.send(wake);
        }
        answer
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("clock", &self.clock).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        self.verb(|state, now| state.enqueue(now, jobs))
    }

    async fn register_worker(&self, registration: Registration) -> Result<(), StoreError> {
        self.verb(|state, now| state.register_worker(now, registration))
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claimed, StoreError> {
        self.verb(|state, now| state.claim(now, &request))
    }

    async fn settle(
        &self,
        worker: WorkerId,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<Settled>, StoreError> {
        self.verb(|state, now| state.settle(now, worker, settlements))
    }

    async fn complete(
        &self,
        worker: WorkerId,
        id: JobId,
        epoch: Epoch,
        result: Option<Json>,
    ) -> Result<Settled, StoreError> {
        let settlement = Settlement { id, epoch, outcome: Outcome::Succeeded { result } };
        self.verb(|state, now| state.complete(now, worker, settlement))
    }

    async fn heartbeat(&self, beat: Beat) -> Result<BeatReply, StoreError> {
        self.verb(|state, now| state.heartbeat(now, beat))
    }

    async fn held(&self, worker: WorkerId, since: Option<Timestamp>) -> Result<Vec<Held>, StoreError> {
        Ok(self.verb(|state, _| state.held(worker, since)))
    }

    async fn release_worker(&self, worker: WorkerId) -> Result<u64, StoreError> {
        Ok(self.verb(|state, now| state.release_worker(now, worker)))
    }

    async fn sweeps_due(
        &self,
        leader: WorkerId,
        epoch: LeaderEpoch,
        probes: Vec<SweepProbe>,
        _timeout: Option<Duration>,
    ) -> Result<Vec<SweepDue>, StoreError> {
        self.verb(|state, now| state.sweeps_due(now, leader, epoch, &probes))
    }

    async fn sweep(&self, sweep: Sweep, call: SweepCall) -> Result<Swept, StoreError> {
        self.verb(|state, now| state.sweep(now, sweep, &call))
    }

    async fn reclaim(&self, call: SweepCall, options: ReclaimOptions) -> Result<ReclaimBatch, StoreError> {
        self.verb(|state, now| state.reclaim(now, &call, &options))
    }

    async fn note_sweeps(
        &self,
        leader: WorkerId,
        epoch: LeaderEpoch,
        notes: Vec<SweepNote>,
    ) -> Result<(), StoreError> {
        self.verb(|state, now| state.note_sweeps(now, leader, epoch, notes))
    }

    async fn sweeps(&self) -> Result<Vec<SweepSummary>, StoreError> {
        Ok(self.verb(|state, now| state.sweep_summaries(now)))
    }

    async fn cancel(&self, ids: Vec<JobId>, reason: Option<String>) -> Result<Vec<Cancelled>, StoreError> {
        self.verb(|state, now| state.cancel(now, &ids, reason.as_deref()))
    }

    async fn cancel_matching(
        &self,
        jobs: JobMatch,
        limit: u32,
        after: Option<JobId>,
        reason: Option<String>,
    ) -> Result<CancelledBatch, StoreError> {
        self.verb(|state, now| state.cancel_matching(now, &jobs, limit, after, reason.as_deref()))
    }

    async fn retry(&self, ids: Vec<JobId>) -> Result<Vec<Retried>, StoreError> {
        self.verb(|state, now| state.retry(now, &ids))
    }

    async fn retry_matching(
        &self,
        jobs: JobMatch,
        limit: u32,
        after: Option<JobId>,
    ) -> Result<RetriedBatch, StoreError> {
        self.verb(|state, now| state.retry_matching(now, &jobs, limit, after))
    }

    async fn prune(&self, call: PruneCall) -> Result<PrunedBatch, StoreError> {
        self.verb(|state, now| state.prune(now, &call))
    }

    async fn pause(&self, part: LanePart) -> Result<bool, StoreError> {
        Ok(self.verb(|state, _| state.pause(part)))
    }

    async fn resume(&self, part: LanePart) -> Result<bool, StoreError> {
        Ok(self.verb(|state, _| state.resume(&part)))
    }

    async fn set_queue(&self, queue: QueueName, mode: QueueMode, limit: u32) -> Result<QueueSet, StoreError> {
        self.verb(|state, _| state.set_queue(&queue, mode, limit))
    }

    async fn set_actor(&self, actor: ActorName, changes: ActorChanges) -> Result<bool, StoreError> {
        self.verb(|state, now| state.set_actor(now, actor, changes))
    }

    async fn paused_actors(&self) -> Result<Vec<ActorName>, StoreError> {
        Ok(self.verb(|state, _| state.paused_actors()))
    }

    async fn workers(&self) -> Result<Vec<WorkerSummary>, StoreError> {
        Ok(self.verb(|state, now| state.workers(now)))
    }

    async fn leader(&self) -> Result<Option<LeaderSummary>, StoreError> {
        Ok(self.verb(|state, now| state.leader.summary(now)))
    }

    async fn job(&self, id: JobId) -> Result<Option<JobRecord>, StoreError> {
        Ok(self.verb(|state, now| state.job(now, id)))
    }

    async fn attempts(&self, id: JobId) -> Result<Vec<AttemptRecord>, StoreError> {
        Ok(self.verb(|state, _| state.attempts(id)))
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>, StoreError> {
        self.verb(|state, now| state.jobs(now, &filter))
    }

    async fn events(&self, after: Option<EventCursor>, limit: u32) -> Result<EventPage, StoreError> {
        self.verb(|state, _| state.events_after(after, limit))
    }

    async fn hold_hook(&self, hold: HookHold) -> Result<Option<EventCursor>, StoreError> {
        self.verb(|state, now| state.hold_hook(now, hold))
    }

    async fn set_setting(&self, setting: Setting) -> Result<(), StoreError> {
        self.verb(|state, now| state.set_setting(now, setting))
    }

    async fn settings(&self) -> Result<Vec<SettingSummary>, StoreError> {
        Ok(self.verb(|state, _| state.setting_summaries()))
    }

    async fn endings(&self, ids: Vec<JobId>) -> Result<Vec<Ending>, StoreError> {
        Ok(self.verb(|state, now| state.endings(now, &ids)))
    }

    async fn queues(&self) -> Result<Vec<QueueSummary>, StoreError> {
        Ok(self.verb(|state, now| state.queues(now)))
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        Ok(self.verb(|state, now| state.stats(now)))
    }

    async fn wake(&self, queues: Vec<QueueName>, due: bool) -> Result<(), StoreError> {
        self.verb(|state, _| state.wake(&queues, due));
        Ok(())
    }

    fn wakes(&self) -> Wakes {
        Wakes::new(self.wakes.subscribe())
    }

    fn runtime(&self) -> Option<tokio::runtime::Handle> {
        None
    }
}
