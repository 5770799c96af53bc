//! What the loops of one session share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attempts::{Attempts, Graces, Key};
use super::handle::Totals;
use super::leader::Leadership;
use super::reach::Reach;
use super::slots::Slots;
use crate::model::{Outcome, Settlement, WorkerId};
use crate::store::Store;

/// One session of a worker: from its registration until it is released or lost.
pub(super) struct Session {
    pub(super) id: WorkerId,
    pub(super) store: Arc<dyn Store>,
    pub(super) reach: Arc<Reach>,
    pub(super) slots: Arc<Slots>,
    pub(super) attempts: Attempts,
    pub(super) claims: Claims,
    pub(super) totals: Totals,
    pub(super) leadership: Leadership,
    outcomes: UnboundedSender<Settlement>,
    /// When the lease is so nearly over that no attempt may start any more; `None` before the first beat.
    limit: Mutex<Option<Instant>>,
    /// Lets the claimer look at every queue.
    pub(super) look: Notify,
    /// Lets the reconciler compare memory with the store.
    pub(super) compare: Notify,
    /// Fires once the session's lease is lost, or so nearly over that its attempts must end. It is never
    /// revived.
    pub(super) lost: CancellationToken,
}

impl Session {
    pub(super) fn new(
        id: WorkerId,
        store: Arc<dyn Store>,
        reach: Arc<Reach>,
        slots: Arc<Slots>,
        graces: Graces,
        totals: Totals,
        outcomes: UnboundedSender<Settlement>,
    ) -> Arc<Self> {
        let queues = slots.queues().len();
        Arc::new(Self {
            id,
            store,
            reach,
            slots,
            attempts: Attempts::new(graces, queues, totals.clone()),
            claims: Claims::default(),
            totals,
            leadership: Leadership::default(),
            outcomes,
            limit: Mutex::default(),
            look: Notify::new(),
            compare: Notify::new(),
            lost: CancellationToken::new(),
        })
    }

    /// Notes until when the session may start attempts.
    pub(super) fn renewed_until(&self, limit: Instant) {
        *self.limit.lock().unwrap_or_else(PoisonError::into_inner) = Some(limit);
    }

    /// Says whether the lease is over, or nearly so, by the worker's own clock.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.limit.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|limit| now >= limit)
    }

    /// Hands what became of an attempt to the settler. The attempt has to be noted as ended before.
    pub(super) fn settle(&self, (id, epoch): Key, outcome: Outcome) {
        // After a lost lease nobody listens: the store would not accept it.
        let _ = self.outcomes.send(Settlement { id, epoch, outcome });
    }

    /// Starts nothing more, and gives back what is claimed and has not started.
    pub(super) fn close(&self) {
        for key in self.attempts.close() {
            self.settle(key, Outcome::Released);
        }
    }

    /// Ends the session because its lease is lost.
    pub(super) fn lose(&self, reason: &dyn std::fmt::Display) {
        if !self.lost.is_cancelled() {
            tracing::error!(worker = %self.id, %reason, "the worker's lease is lost; its attempts are stopped");
            self.lost.cancel();
        }
    }
}

/// The claims of a session, counted, so that a claim whose jobs are not registered yet is not taken for one whose jobs
/// got lost. One is in flight at a time.
#[derive(Default)]
pub(super) struct Claims {
    started: AtomicU64,
    ended: AtomicU64,
    unsure: AtomicBool,
}

impl Claims {
    pub(super) fn start(&self) {
        self.started.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that a claim is over: what it returned is registered, or it returned nothing.
    pub(super) fn end(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that a claim got no answer: it may have taken jobs all the same.
    pub(super) fn doubt(&self) {
        self.unsure.store(true, Ordering::SeqCst);
    }

    pub(super) fn started(&self) -> u64 {
        self.started.load(Ordering::SeqCst)
    }

    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
    }

    /// Says whether a claim got no answer since the last comparison that took this up.
    pub(super) fn in_doubt(&self) -> bool {
        self.unsure.load(Ordering::SeqCst)
    }

    pub(super) fn take_doubt(&self) -> bool {
        self.unsure.swap(false, Ordering::SeqCst)
    }
}
