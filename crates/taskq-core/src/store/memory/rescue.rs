//! What the leader does about workers whose lease has ended: `sweeps_due`, `mark_lost`, `reclaim`,
//! `forget_workers`.

use std::time::Duration;

use jiff::Timestamp;

use super::super::{LeaderEpoch, Reclaimed, StoreError, SweepsDue, WorkerState};
use super::clock::later;
use super::settle::policy_delay;
use super::state::{Burnt, End, Next, Return, State};
use super::validate;
use super::workers::Session;
use crate::model::{ErrorRecord, JobId, OutcomeKind, Status, WorkerId};

/// The longest that a job waits whose first attempt was lost: most likely it was not its fault.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// How long after the end of its lease a lost worker is remembered.
const REMEMBERED: Duration = Duration::from_hours(1);

impl State {
    pub(super) fn sweeps_due(
        &self,
        now: Timestamp,
        leader: WorkerId,
        epoch: LeaderEpoch,
    ) -> Result<SweepsDue, StoreError> {
        self.require_leader(now, leader, epoch)?;
        let has_expired = |session: &Session| session.state == WorkerState::Active && !session.is_alive(now);
        Ok(SweepsDue {
            next_due_in: self.next_due_in(now),
            lease_ended: self.workers.values().any(has_expired),
            lost: self.lost_workers().any(|(worker, _)| self.running.contains_key(worker)),
            forgettable: self.lost_workers().any(|(_, session)| is_history(session, now)),
        })
    }

    pub(super) fn mark_lost(
        &mut self,
        now: Timestamp,
        leader: WorkerId,
        epoch: LeaderEpoch,
        limit: u32,
    ) -> Result<u64, StoreError> {
        validate::batch(limit)?;
        self.require_leader(now, leader, epoch)?;
        let sessions = self.workers.values_mut();
        let expired =
            sessions.filter(|session| session.state == WorkerState::Active && !session.is_alive(now));
        let mut lost = 0;
        for session in expired.take(limit as usize) {
            session.state = WorkerState::Lost;
            lost += 1;
        }
        Ok(lost)
    }

    pub(super) fn reclaim(
        &mut self,
        now: Timestamp,
        leader: WorkerId,
        epoch: LeaderEpoch,
        limit: u32,
        forgive: bool,
        skip: &[JobId],
    ) -> Result<Vec<Reclaimed>, StoreError> {
        validate::batch(limit)?;
        self.require_leader(now, leader, epoch)?;
        let held = self.lost_workers().filter_map(|(worker, _)| self.running.get(worker));
        let ids = held.flatten().map(|(_, id)| *id).filter(|id| !skip.contains(id));
        let ids: Vec<JobId> = ids.take(limit as usize).collect();
        let burnt = if forgive { Burnt::No } else { Burnt::Yes };
        Ok(ids.into_iter().map(|id| self.reclaim_one(now, id, burnt)).collect())
    }

    fn reclaim_one(&mut self, now: Timestamp, id: JobId, burnt: Burnt) -> Reclaimed {
        let job = &self.jobs[&id];
        let worker = job.worker.expect("a running job has a worker");
        let epoch = job.epoch;
        let error = ErrorRecord::new("lost", &format!("worker {worker} was lost"));
        let outcome = OutcomeKind::Crashed;
        if self.cancelling.contains(&id) {
            self.end_cancelled(id, now, Some(error));
        } else if burnt == Burnt::No {
            let back = Return { outcome, error: Some(error), next: Next::AsItWas, attempt: burnt };
            self.give_back(id, now, back);
        } else if job.attempt >= i32::from(job.max_attempts) {
            self.end(id, now, End { status: Status::Crashed, result: None, error: Some(error) });
        } else {
            let most = if job.attempt <= 1 { FIRST_DELAY } else { Duration::MAX };
            let next = Next::Scheduled(policy_delay(job, &mut self.random).min(most));
            self.give_back(id, now, Return { outcome, error: Some(error), next, attempt: burnt });
        }
        Reclaimed { id, epoch, status: self.jobs[&id].status, problem: None }
    }

    pub(super) fn forget_workers(
        &mut self,
        now: Timestamp,
        leader: WorkerId,
        epoch: LeaderEpoch,
        limit: u32,
    ) -> Result<u64, StoreError> {
        validate::batch(limit)?;
        self.require_leader(now, leader, epoch)?;
        let idle = self.lost_workers().filter(|(worker, _)| !self.running.contains_key(worker));
        let forgotten = idle.filter(|(_, session)| is_history(session, now)).map(|(worker, _)| *worker);
        let forgotten: Vec<WorkerId> = forgotten.take(limit as usize).collect();
        for worker in &forgotten {
            self.workers.remove(worker);
        }
        Ok(forgotten.len() as u64)
    }

    /// The workers that were declared lost, by id.
    fn lost_workers(&self) -> impl Iterator<Item = (&WorkerId, &Session)> {
        self.workers.iter().filter(|(_, session)| session.state == WorkerState::Lost)
    }
}

fn is_history(session: &Session, now: Timestamp) -> bool {
    later(session.lease_expires_at, REMEMBERED) < now
}
