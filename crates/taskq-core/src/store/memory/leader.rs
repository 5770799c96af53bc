//! The leader's lease, and what only the leader may do: `promote`.

use std::time::Duration;

use jiff::Timestamp;

use super::super::{LeaderEpoch, Promoted, StoreError};
use super::clock::later;
use super::state::State;
use crate::model::{JobId, WorkerId};

/// Who leads.
#[derive(Default)]
pub(super) struct Leader {
    holder: Option<Holder>,
    /// Grows with every take-over, also of a lease that ran out under the same worker.
    epoch: i64,
}

struct Holder {
    worker: WorkerId,
    expires_at: Timestamp,
}

impl Leader {
    /// The worker that leads, if one does.
    pub(super) fn worker(&self, now: Timestamp) -> Option<WorkerId> {
        self.holder.as_ref().filter(|holder| now < holder.expires_at).map(|holder| holder.worker)
    }

    /// Frees the lease if the worker holds it.
    pub(super) fn free(&mut self, worker: WorkerId, now: Timestamp) {
        if self.worker(now) == Some(worker) {
            self.holder = None;
        }
    }
}

impl State {
    /// Takes or renews the leader's lease; `None` when someone else holds it.
    pub(super) fn lead(&mut self, now: Timestamp, worker: WorkerId, lease: Duration) -> Option<LeaderEpoch> {
        match self.leader.worker(now) {
            Some(leader) if leader != worker => return None,
            Some(_) => {}
            None => self.leader.epoch += 1,
        }
        self.leader.holder = Some(Holder { worker, expires_at: later(now, lease) });
        Some(LeaderEpoch(self.leader.epoch))
    }

    pub(super) fn promote(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        epoch: LeaderEpoch,
        limit: u32,
    ) -> Result<Promoted, StoreError> {
        if limit == 0 {
            return Err(StoreError::invalid("limit is 0"));
        }
        if self.leader.worker(now) != Some(worker) || LeaderEpoch(self.leader.epoch) != epoch {
            let message = format!("session {worker} does not lead with epoch {}", epoch.0);
            return Err(StoreError::NotLeader { message });
        }
        let due = self.scheduled.iter().take_while(|(at, _)| *at <= now);
        let due: Vec<JobId> = due.take(limit as usize).map(|(_, id)| *id).collect();
        for id in &due {
            self.ready(*id);
        }
        // A negative distance is no duration: more are due.
        let wait = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO);
        let next_due_in = self.scheduled.first().map(|(at, _)| wait(*at));
        Ok(Promoted { jobs: due.len() as u64, next_due_in })
    }
}
