//! The leader's lease.

use std::time::Duration;

use jiff::Timestamp;

use super::super::{LeaderEpoch, LeaderSummary, StoreError};
use super::clock::later;
use super::query::until;
use super::state::State;
use crate::model::WorkerId;

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
        self.summary(now).map(|summary| summary.worker)
    }

    /// The leader's lease, while it runs.
    pub(super) fn summary(&self, now: Timestamp) -> Option<LeaderSummary> {
        let holder = self.holder.as_ref().filter(|holder| now < holder.expires_at)?;
        let Holder { worker, expires_at } = *holder;
        Some(LeaderSummary { worker, epoch: self.epoch, expires_at, lease_left: until(expires_at, now) })
    }

    /// How many leaders there have been.
    pub(super) const fn epoch(&self) -> i64 {
        self.epoch
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

    /// Fails unless the worker leads with this epoch.
    pub(super) fn require_leader(
        &self,
        now: Timestamp,
        worker: WorkerId,
        epoch: LeaderEpoch,
    ) -> Result<(), StoreError> {
        if self.leader.worker(now) == Some(worker) && LeaderEpoch(self.leader.epoch) == epoch {
            return Ok(());
        }
        let message = format!("session {worker} does not lead with epoch {}", epoch.0);
        Err(StoreError::NotLeader { message })
    }
}
