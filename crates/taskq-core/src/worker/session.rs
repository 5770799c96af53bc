//! What the loops of one session share.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::attempts::Attempts;
use super::handle::Totals;
use super::leader::Leadership;
use super::slots::Slots;
use crate::model::WorkerId;
use crate::store::Store;

/// One session of a worker: from its registration until it is released or lost.
pub(super) struct Session {
    pub(super) id: WorkerId,
    pub(super) store: Arc<dyn Store>,
    pub(super) slots: Arc<Slots>,
    pub(super) attempts: Arc<Attempts>,
    pub(super) totals: Totals,
    pub(super) leadership: Leadership,
    /// Lets the claimer look at every queue.
    pub(super) look: Notify,
    /// Fires once the session's lease is lost, or so nearly over that its attempts must end. It is never
    /// revived.
    pub(super) lost: CancellationToken,
}

impl Session {
    pub(super) fn new(id: WorkerId, store: Arc<dyn Store>, slots: Arc<Slots>, totals: Totals) -> Arc<Self> {
        Arc::new(Self {
            id,
            store,
            slots,
            attempts: Arc::default(),
            totals,
            leadership: Leadership::default(),
            look: Notify::new(),
            lost: CancellationToken::new(),
        })
    }

    /// Ends the session because its lease is lost.
    pub(super) fn lose(&self, reason: &dyn std::fmt::Display) {
        if !self.lost.is_cancelled() {
            tracing::error!(worker = %self.id, %reason, "the worker's lease is lost; its attempts are stopped");
            self.lost.cancel();
        }
    }
}
