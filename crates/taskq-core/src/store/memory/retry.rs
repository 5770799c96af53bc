//! `retry`: an operator makes ended jobs ready again.

use jiff::Timestamp;
use serde_json::json;

use super::super::{Retried, RetryOutcome, StoreError};
use super::state::State;
use super::validate;
use crate::model::JobId;

impl State {
    pub(super) fn retry(&mut self, now: Timestamp, ids: &[JobId]) -> Result<Vec<Retried>, StoreError> {
        validate::ids(ids)?;
        Ok(self.retry_each(now, ids))
    }

    /// Makes ended jobs ready again, one after the other.
    pub(super) fn retry_each(&mut self, now: Timestamp, ids: &[JobId]) -> Vec<Retried> {
        ids.iter().map(|id| self.retry_one(now, *id)).collect()
    }

    fn retry_one(&mut self, now: Timestamp, id: JobId) -> Retried {
        self.bring_back(id);
        let outcome = match self.jobs.get(&id) {
            None => RetryOutcome::NotFound,
            Some(job) if !job.status.is_terminal() => RetryOutcome::Unfinished,
            Some(job) => {
                let detail = json!({"status": job.status, "epoch": job.epoch});
                self.reopen(id, now);
                self.tell(now, id, "retried_by_operator", &detail);
                RetryOutcome::Retried
            }
        };
        Retried { id, outcome, status: self.jobs.get(&id).map(|job| job.status) }
    }
}
