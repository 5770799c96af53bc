//! `settle`.

use std::time::Duration;

use jiff::Timestamp;

use super::super::StoreError;
use super::clock::later;
use super::state::{Burnt, End, Return, State};
use super::validate;
use crate::model::{
    ErrorRecord, JobId, JobRecord, Outcome, OutcomeKind, SettleReason, Settled, Settlement, Status, WorkerId,
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
        Ok(settlements.into_iter().map(settle_one).collect())
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
    /// attempt.
    fn has_recorded(&self, job: &JobRecord, worker: WorkerId, settlement: &Settlement) -> bool {
        let kind = settlement.outcome.kind();
        let ended = job.epoch == settlement.epoch
            && job.worker == Some(worker)
            && match kind {
                OutcomeKind::Succeeded => job.status == Status::Succeeded,
                OutcomeKind::Failed => job.status == Status::Failed,
                OutcomeKind::Cancelled => job.status == Status::Cancelled,
                OutcomeKind::Snoozed | OutcomeKind::Released | OutcomeKind::Crashed => false,
            };
        ended
            || self
                .attempts
                .get(&(settlement.id, settlement.epoch))
                .is_some_and(|attempt| attempt.worker == worker && attempt.outcome == kind)
    }

    fn apply(&mut self, now: Timestamp, id: JobId, outcome: Outcome) {
        match outcome {
            Outcome::Succeeded { result } => {
                self.end(id, now, End { status: Status::Succeeded, result, error: None });
            }
            Outcome::Cancelled { error } => {
                // Without an error of its own it keeps the last one.
                let error = error.or_else(|| self.jobs[&id].error.clone());
                self.end(id, now, End { status: Status::Cancelled, result: None, error });
            }
            Outcome::Failed { error, delay, is_final } => self.fail(now, id, error, delay, is_final),
            Outcome::Snoozed { delay } => {
                let outcome = OutcomeKind::Snoozed;
                let back = Return { outcome, error: None, after: Some(delay), attempt: Burnt::No };
                self.give_back(id, now, back);
            }
            Outcome::Released => self.give_back(id, now, Return::RELEASED),
        }
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
        let after = delay
            .unwrap_or_else(|| job.retry_policy.unwrap_or_default().delay(job.attempt, self.random.f64()));
        let is_late = job.schedule_to_close.is_some_and(|deadline| later(now, after) >= deadline);
        if is_final || is_spent || is_late {
            self.end(id, now, End { status: Status::Failed, result: None, error: Some(error) });
            return;
        }
        let attempt = if delay.is_some() { Burnt::No } else { Burnt::Yes };
        let back = Return { outcome: OutcomeKind::Failed, error: Some(error), after: Some(after), attempt };
        self.give_back(id, now, back);
    }
}

impl Return {
    /// Unfinished, as if it had never been claimed.
    pub(super) const RELEASED: Self =
        Self { outcome: OutcomeKind::Released, error: None, after: None, attempt: Burnt::No };
}
