//! What the leader does about workers whose lease has ended.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::super::{OutageSpan, ReclaimBatch, ReclaimOptions, Reclaimed, StoreError, SweepCall, WorkerState};
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
    /// The leases of workers that are not declared lost, by id: when each ends.
    pub(super) fn leases(&self) -> impl Iterator<Item = (Timestamp, Timestamp, WorkerId)> {
        let active = self.workers.iter().filter(|(_, session)| session.state == WorkerState::Active);
        active.map(|(worker, session)| (session.lease_expires_at, session.lease_expires_at, *worker))
    }

    /// Declares a worker lost.
    pub(super) fn lose(&mut self, worker: WorkerId) {
        if let Some(session) = self.workers.get_mut(&worker) {
            session.state = WorkerState::Lost;
        }
    }

    /// The lost workers whose jobs have not all been taken from them.
    pub(super) fn unreclaimed(&self) -> impl Iterator<Item = (Timestamp, Timestamp, WorkerId)> {
        let left = self.lost_workers().filter(|(_, session)| !session.reclaimed);
        left.map(|(worker, session)| (session.lease_expires_at, session.lease_expires_at, *worker))
    }

    /// How many jobs lost workers hold.
    pub(super) fn unreclaimed_jobs(&self) -> usize {
        let held = self.lost_workers().filter_map(|(worker, _)| self.running.get(worker));
        held.map(BTreeSet::len).sum()
    }

    /// The lost workers that hold no job: when each may be forgotten.
    pub(super) fn forgettable(&self) -> impl Iterator<Item = (Timestamp, Timestamp, WorkerId)> {
        let idle = self.lost_workers().filter(|(_, session)| session.reclaimed);
        idle.map(|(worker, session)| {
            (session.lease_expires_at, later(session.lease_expires_at, REMEMBERED), *worker)
        })
    }

    pub(super) fn reclaim(
        &mut self,
        now: Timestamp,
        call: &SweepCall,
        options: &ReclaimOptions,
    ) -> Result<ReclaimBatch, StoreError> {
        validate::batch(call.limit)?;
        self.require_leader(now, call.leader, call.epoch)?;
        let held = self.lost_workers().filter_map(|(worker, _)| self.running.get(worker));
        let ids = held.flatten().map(|(_, id)| *id).filter(|id| !options.skip.contains(id));
        let ids: Vec<JobId> = ids.take(call.limit as usize).collect();
        let jobs = ids.into_iter().map(|id| self.reclaim_one(now, id, options.outage)).collect();
        for (worker, session) in &mut self.workers {
            session.reclaimed |= session.state == WorkerState::Lost && !self.running.contains_key(worker);
        }
        // Nothing slows it down, so it looks at all of them every time.
        Ok(ReclaimBatch { jobs, reached: None })
    }

    fn reclaim_one(&mut self, now: Timestamp, id: JobId, outage: Option<OutageSpan>) -> Reclaimed {
        let job = &self.jobs[&id];
        let worker = job.worker.expect("a running job has a worker");
        let session = &self.workers[&worker];
        let is_forgiven = outage.is_some_and(|outage| {
            later(session.lease_expires_at, outage.began) >= now
                && later(session.beat_at, outage.ended) <= now
        });
        let burnt = if is_forgiven { Burnt::No } else { Burnt::Yes };
        let epoch = job.epoch;
        let detail = json!({"epoch": epoch, "attempt": job.attempt, "worker": worker});
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
        let status = self.jobs[&id].status;
        let kind = match status {
            Status::Crashed => "crashed",
            Status::Cancelled => "cancelled",
            _ => "reclaimed",
        };
        self.tell(now, id, kind, &detail);
        Reclaimed { id, epoch, status, problem: None }
    }

    /// The workers that were declared lost, by id.
    fn lost_workers(&self) -> impl Iterator<Item = (&WorkerId, &Session)> {
        self.workers.iter().filter(|(_, session)| session.state == WorkerState::Lost)
    }
}
