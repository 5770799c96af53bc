//! The in-memory store: the readable specification of what every store does.
//!
//! One file a family of verbs, each an `impl State` that runs under one lock with one reading of the clock,
//! so every call is atomic. PostgreSQL is the reference where the two differ.

mod claim;
mod clock;
mod enqueue;
mod hints;
mod leader;
mod query;
mod settle;
mod state;
#[cfg(test)]
mod tests;
mod validate;
mod workers;

use std::fmt;
use std::sync::Mutex;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::broadcast;

pub use clock::{Clock, TestClock};

use super::{
    Beat, BeatReply, ClaimRequest, Claimed, Ending, Held, JobFilter, LeaderEpoch, Promoted, QueueSummary,
    Registration, Stats, Store, StoreError, Wake, Wakes,
};
use crate::model::{AttemptRecord, Enqueued, JobId, JobRecord, NewJob, Settled, Settlement, WorkerId};
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

    async fn heartbeat(&self, beat: Beat) -> Result<BeatReply, StoreError> {
        self.verb(|state, now| state.heartbeat(now, beat))
    }

    async fn held(&self, worker: WorkerId, since: Option<Timestamp>) -> Result<Vec<Held>, StoreError> {
        Ok(self.verb(|state, _| state.held(worker, since)))
    }

    async fn release_worker(&self, worker: WorkerId) -> Result<u64, StoreError> {
        Ok(self.verb(|state, now| state.release_worker(now, worker)))
    }

    async fn promote(
        &self,
        leader: WorkerId,
        epoch: LeaderEpoch,
        limit: u32,
    ) -> Result<Promoted, StoreError> {
        self.verb(|state, now| state.promote(now, leader, epoch, limit))
    }

    async fn job(&self, id: JobId) -> Result<Option<JobRecord>, StoreError> {
        Ok(self.verb(|state, _| state.job(id)))
    }

    async fn attempts(&self, id: JobId) -> Result<Vec<AttemptRecord>, StoreError> {
        Ok(self.verb(|state, _| state.attempts(id)))
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>, StoreError> {
        self.verb(|state, _| state.jobs(&filter))
    }

    async fn endings(&self, ids: Vec<JobId>) -> Result<Vec<Ending>, StoreError> {
        Ok(self.verb(|state, _| state.endings(&ids)))
    }

    async fn queues(&self) -> Result<Vec<QueueSummary>, StoreError> {
        Ok(self.verb(|state, now| state.queues(now)))
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        Ok(self.verb(|state, now| state.stats(now)))
    }

    fn wakes(&self) -> Wakes {
        Wakes::new(self.wakes.subscribe())
    }

    fn runtime(&self) -> Option<tokio::runtime::Handle> {
        None
    }
}
