//! Worker sessions: `register_worker`, `heartbeat`, `held`, `release_worker`.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::super::{Beat, BeatReply, Held, Progress, Registration, StoreError, WorkerState};
use super::clock::later;
use super::state::{Return, State};
use super::validate;
use crate::model::{ActorName, Epoch, EventLevel, JobId, QueueName, Status, WorkerId};

/// How long an attempt may run beyond what it may before its worker is told: the worker's own clock comes first.
const OVERDUE_GRACE: Duration = Duration::from_secs(5);

/// A worker session.
pub(super) struct Session {
    /// Lost once the leader has said so, whatever the clock does afterwards.
    pub(super) state: WorkerState,
    pub(super) queues: BTreeSet<QueueName>,
    pub(super) actors: BTreeSet<ActorName>,
    pub(super) started_at: Timestamp,
    pub(super) beat_at: Timestamp,
    pub(super) lease_expires_at: Timestamp,
    /// Everything it ran has been taken from it.
    pub(super) reclaimed: bool,
}

impl Session {
    pub(super) fn is_alive(&self, now: Timestamp) -> bool {
        self.state == WorkerState::Active && now < self.lease_expires_at
    }
}

impl State {
    pub(super) fn register_worker(
        &mut self,
        now: Timestamp,
        registration: Registration,
    ) -> Result<(), StoreError> {
        validate::lease("lease", registration.lease)?;
        if registration.queues.is_empty() {
            return Err(StoreError::invalid("a worker needs at least one queue"));
        }
        if registration.actors.is_empty() {
            return Err(StoreError::invalid("a worker needs at least one actor"));
        }
        if let Some(info) = &registration.info {
            validate::object("info", info).map_err(StoreError::invalid)?;
        }
        if self.workers.contains_key(&registration.worker) {
            return Err(StoreError::invalid("the worker's id is taken: a session needs a new one"));
        }
        let session = Session {
            state: WorkerState::Active,
            queues: registration.queues.into_iter().collect(),
            actors: registration.actors.into_iter().collect(),
            started_at: now,
            beat_at: now,
            lease_expires_at: later(now, registration.lease),
            reclaimed: false,
        };
        self.workers.insert(registration.worker, session);
        Ok(())
    }

    pub(super) fn heartbeat(&mut self, now: Timestamp, beat: Beat) -> Result<BeatReply, StoreError> {
        validate::lease("lease", beat.lease)?;
        if let Some(lease) = beat.leadership {
            validate::lease("the leader's lease", lease)?;
        }
        let session = self.alive_mut(beat.worker, now)?;
        session.beat_at = now;
        session.lease_expires_at = later(now, beat.lease);
        for progress in beat.progress {
            self.note(beat.worker, progress);
        }
        let leadership = beat.leadership.and_then(|lease| self.lead(now, beat.worker, lease));
        let (cancel, overdue) =
            (self.cancel_requests(beat.worker), self.overdue(beat.worker, now, beat.lease));
        Ok(BeatReply { leadership, cancel, overdue })
    }

    /// The attempts of a worker that have run longer than they may, for no longer than the lease.
    fn overdue(&self, worker: WorkerId, now: Timestamp, lease: Duration) -> Vec<(JobId, Epoch)> {
        let since = |held: &Held| {
            let bound = self.jobs[&held.id].start_to_close?;
            Some(later(later(held.started_at, bound), OVERDUE_GRACE))
        };
        let is_overdue = |since: Timestamp| since <= now && now <= later(since, lease);
        let mut overdue: Vec<(Timestamp, Held)> = self
            .held(worker, None)
            .into_iter()
            .filter_map(|held| since(&held).filter(|since| is_overdue(*since)).map(|since| (since, held)))
            .collect();
        overdue.sort_by_key(|(since, _)| *since);
        overdue.into_iter().map(|(_, held)| (held.id, held.epoch)).collect()
    }

    /// Stores a note of progress, if it comes from the attempt that runs.
    fn note(&mut self, worker: WorkerId, note: Progress) {
        if let Some(job) = self.jobs.get_mut(&note.id)
            && job.status == Status::Running
            && job.epoch == note.epoch
            && job.worker == Some(worker)
        {
            job.progress = Some(note.progress);
        }
    }

    pub(super) fn held(&self, worker: WorkerId, since: Option<Timestamp>) -> Vec<Held> {
        let held = self.running.get(&worker).into_iter().flatten();
        held.filter(|(started_at, _)| since.is_none_or(|since| *started_at >= since))
            .map(|(started_at, id)| Held { id: *id, epoch: self.jobs[id].epoch, started_at: *started_at })
            .collect()
    }

    pub(super) fn release_worker(&mut self, now: Timestamp, worker: WorkerId) -> u64 {
        if self.workers.remove(&worker).is_none() {
            return 0;
        }
        let held: Vec<JobId> = self.running.get(&worker).into_iter().flatten().map(|(_, id)| *id).collect();
        for id in &held {
            let job = &self.jobs[id];
            let detail = json!({"epoch": job.epoch, "attempt": job.attempt});
            if self.cancelling.contains(id) {
                self.tell(now, *id, "cancelled", &detail);
                self.end_cancelled(*id, now, None);
            } else {
                self.tell_at(EventLevel::All, now, *id, "released", &detail);
                self.give_back(*id, now, Return::RELEASED);
            }
        }
        self.leader.free(worker, now);
        held.len() as u64
    }

    /// Finds a session whose lease runs.
    pub(super) fn alive(&self, worker: WorkerId, now: Timestamp) -> Result<&Session, StoreError> {
        let session = self.workers.get(&worker).ok_or_else(|| lost(worker, "is unknown"))?;
        if session.is_alive(now) { Ok(session) } else { Err(lost(worker, "is lost or has expired")) }
    }

    /// Finds a session whose lease runs, to change it.
    pub(super) fn alive_mut(&mut self, worker: WorkerId, now: Timestamp) -> Result<&mut Session, StoreError> {
        self.alive(worker, now)?;
        Ok(self.workers.get_mut(&worker).expect("the session was found just now"))
    }
}

fn lost(worker: WorkerId, how: &str) -> StoreError {
    StoreError::LeaseLost { message: format!("session {worker} {how}") }
}
