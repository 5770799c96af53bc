//! `cancel`, and the requests that a heartbeat hands on.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::{CancelOutcome, Cancelled, StoreError};
use super::state::State;
use super::validate;
use crate::model::{Epoch, ErrorRecord, JobId, Status, WorkerId};

impl State {
    pub(super) fn cancel(
        &mut self,
        now: Timestamp,
        ids: &[JobId],
        reason: Option<&str>,
    ) -> Result<Vec<Cancelled>, StoreError> {
        validate::ids(ids)?;
        Ok(self.cancel_each(now, ids, reason))
    }

    /// Cancels jobs, one after the other.
    pub(super) fn cancel_each(
        &mut self,
        now: Timestamp,
        ids: &[JobId],
        reason: Option<&str>,
    ) -> Vec<Cancelled> {
        let error = ErrorRecord::new("cancelled", reason.unwrap_or("cancelled on request"));
        let detail = reason.map_or_else(|| json!({}), |reason| json!({"reason": reason}));
        ids.iter().map(|id| self.cancel_one(now, *id, &error, &detail)).collect()
    }

    fn cancel_one(&mut self, now: Timestamp, id: JobId, error: &ErrorRecord, detail: &Value) -> Cancelled {
        let Some(job) = self.record(id) else {
            return Cancelled { id, outcome: CancelOutcome::NotFound, status: None };
        };
        let outcome = match job.status {
            Status::Scheduled | Status::Blocked | Status::Pending => {
                self.end_cancelled(id, now, Some(error.clone()));
                self.tell(now, id, "cancelled", detail);
                CancelOutcome::Cancelled
            }
            Status::Running => {
                // Who asks again changes nothing: the worker is told at every beat.
                let worker = job.worker;
                if self.cancelling.insert(id) {
                    self.tell(now, id, "cancel_requested", detail);
                    if let Some(worker) = worker {
                        self.hints.cancel(worker);
                    }
                }
                CancelOutcome::Requested
            }
            _ => CancelOutcome::Finished,
        };
        Cancelled { id, outcome, status: self.record(id).map(|job| job.status) }
    }

    /// The attempts of a worker that somebody asked to cancel and that have not ended.
    pub(super) fn cancel_requests(&self, worker: WorkerId) -> Vec<(JobId, Epoch)> {
        let held = self.held(worker, None).into_iter();
        held.filter(|held| self.cancelling.contains(&held.id)).map(|held| (held.id, held.epoch)).collect()
    }
}
