//! `settle`.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::super::StoreError;
use super::clock::later;
use super::state::{Burnt, End, Next, Return, State};
use super::validate;
use crate::model::{
    ErrorRecord, EventLevel, JobId, JobRecord, Keep, Outcome, OutcomeKind, SettleReason, Settled, Settlement,
    Status, WorkerId,
};

impl State {
    pub(super) fn settle(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<Settled>, StoreError> {
        for (index, settlement) in settlements.iter().enumerate() {
            validate::element(index, validate::outcome(&settlement.outcome))?;
        }
        let alive = self.alive(worker, now).is_ok();
        let settle_one = |settlement| self.settle_one(now, worker, alive, settlement);
        let settled: Vec<_> = settlements.into_iter().map(settle_one).collect();
        // At the end, so that an attempt that stands in the call twice is known for what it is.
        for settled in &settled {
            self.let_go(settled);
        }
        Ok(settled)
    }

    /// Settles one attempt; the caller knows of no call of several.
    pub(super) fn complete(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        settlement: Settlement,
    ) -> Result<Settled, StoreError> {
        validate::outcome(&settlement.outcome).map_err(StoreError::invalid)?;
        let alive = self.alive(worker, now).is_ok();
        let settled = self.settle_one(now, worker, alive, settlement);
        self.let_go(&settled);
        Ok(settled)
    }

    /// Forgets a job that has just succeeded and keeps nothing.
    fn let_go(&mut self, settled: &Settled) {
        let has_succeeded =
            settled.reason == SettleReason::Applied && settled.status == Some(Status::Succeeded);
        if has_succeeded && self.jobs.get(&settled.id).is_some_and(|job| job.keep == Keep::None) {
            self.remove(settled.id);
        }
    }

    fn settle_one(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        alive: bool,
        settlement: Settlement,
    ) -> Settled {
        let id = settlement.id;
        let Some(job) = self.jobs.get(&id) else {
            return Settled { id, reason: SettleReason::Gone, status: None };
        };
        let owned = job.epoch == settlement.epoch && job.worker == Some(worker);
        let reason = if owned && job.status == Status::Running && alive {
            self.apply(now, id, settlement.outcome);
            SettleReason::Applied
        } else if self.has_recorded(job, worker, &settlement) {
            SettleReason::Repeated
        } else {
            SettleReason::Stale
        };
        Settled { id, reason, status: self.jobs.get(&id).map(|job| job.status) }
    }

    /// Says whether this attempt has already recorded this outcome: on the job if it ended it, else as an
    /// attempt. Where a cancellation was asked for, other outcomes too have ended the job as cancelled.
    fn has_recorded(&self, job: &JobRecord, worker: WorkerId, settlement: &Settlement) -> bool {
        let kind = settlement.outcome.kind();
        let gave_way = job.status == Status::Cancelled && self.cancelling.contains(&job.id);
        let ended = job.epoch == settlement.epoch
            && job.worker == Some(worker)
            && match kind {
                OutcomeKind::Succeeded => job.status == Status::Succeeded,
                OutcomeKind::Failed => job.status == Status::Failed || gave_way,
                OutcomeKind::Cancelled => job.status == Status::Cancelled,
                OutcomeKind::Abandoned => job.status == Status::Abandoned,
                OutcomeKind::Snoozed | OutcomeKind::Released => gave_way,
                OutcomeKind::Crashed => false,
            };
        ended
            || self
                .attempts
                .get(&(settlement.id, settlement.epoch))
                .is_some_and(|attempt| attempt.worker == worker && attempt.outcome == kind)
    }

    fn apply(&mut self, now: Timestamp, id: JobId, outcome: Outcome) {
        let (kind, class) = (outcome.kind(), class(&outcome));
        let (epoch, attempt) = (self.jobs[&id].epoch, self.jobs[&id].attempt);
        self.transit(now, id, outcome);
        let job = &self.jobs[&id];
        let (told, level) = match (kind, job.status) {
            (_, Status::Cancelled) => ("cancelled", EventLevel::Notable),
            (OutcomeKind::Failed, status) if status != Status::Failed => ("retried", EventLevel::Notable),
            (OutcomeKind::Snoozed | OutcomeKind::Abandoned, _) => (kind.as_str(), EventLevel::Notable),
            (OutcomeKind::Succeeded | OutcomeKind::Failed, _) => (kind.as_str(), EventLevel::Ends),
            _ => (kind.as_str(), EventLevel::All),
        };
        let mut detail = json!({"epoch": epoch, "attempt": attempt});
        if job.status == Status::Scheduled {
            detail["next_at"] = json!(job.scheduled_at);
        }
        if let Some(class) = class {
            detail["class"] = json!(class);
        }
        self.tell_at(level, now, id, told, &detail);
    }

    fn transit(&mut self, now: Timestamp, id: JobId, outcome: Outcome) {
        let is_cancelling = self.cancelling.contains(&id);
        match outcome {
            Outcome::Succeeded { result } => {
                self.end(id, now, End { status: Status::Succeeded, result, error: None });
            }
            Outcome::Abandoned { error } => {
                self.end(id, now, End { status: Status::Abandoned, result: None, error: Some(error) });
            }
            Outcome::Cancelled { error } => self.end_cancelled(id, now, error),
            Outcome::Failed { error, .. } if is_cancelling => self.end_cancelled(id, now, Some(error)),
            Outcome::Snoozed { .. } | Outcome::Released if is_cancelling => self.end_cancelled(id, now, None),
            Outcome::Failed { error, delay, is_final } => self.fail(now, id, error, delay, is_final),
            Outcome::Snoozed { delay } => {
                let (outcome, next) = (OutcomeKind::Snoozed, Next::After(delay));
                self.give_back(id, now, Return { outcome, error: None, next, attempt: Burnt::No });
            }
            Outcome::Released => self.give_back(id, now, Return::RELEASED),
        }
    }

    /// Ends a job as cancelled. Without an error of its own it keeps the last one.
    pub(super) fn end_cancelled(&mut self, id: JobId, now: Timestamp, error: Option<ErrorRecord>) {
        let error = error.or_else(|| self.jobs[&id].error.clone());
        self.end(id, now, End { status: Status::Cancelled, result: None, error });
    }

    fn fail(
        &mut self,
        now: Timestamp,
        id: JobId,
        error: ErrorRecord,
        delay: Option<Duration>,
        is_final: bool,
    ) {
        let job = &self.jobs[&id];
        let is_spent = delay.is_none() && job.attempt >= i32::from(job.max_attempts);
        let after = delay.unwrap_or_else(|| policy_delay(job, &mut self.random));
        let is_late = job.schedule_to_close.is_some_and(|deadline| later(now, after) >= deadline);
        if is_final || is_spent || is_late {
            self.end(id, now, End { status: Status::Failed, result: None, error: Some(error) });
            return;
        }
        let attempt = if delay.is_some() { Burnt::No } else { Burnt::Yes };
        let (outcome, next) = (OutcomeKind::Failed, Next::After(after));
        self.give_back(id, now, Return { outcome, error: Some(error), next, attempt });
    }
}

/// The class of the error that an outcome tells of.
fn class(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Failed { error, .. } | Outcome::Abandoned { error } => Some(error.class.clone()),
        Outcome::Cancelled { error } => error.as_ref().map(|error| error.class.clone()),
        Outcome::Succeeded { .. } | Outcome::Snoozed { .. } | Outcome::Released => None,
    }
}

/// How long a job waits after its attempt failed or was lost.
pub(super) fn policy_delay(job: &JobRecord, random: &mut fastrand::Rng) -> Duration {
    job.retry_policy.unwrap_or_default().delay(job.attempt, random.f64())
}

impl Return {
    /// Unfinished, as if it had never been claimed.
    pub(super) const RELEASED: Self =
        Self { outcome: OutcomeKind::Released, error: None, next: Next::AsItWas, attempt: Burnt::No };
}
