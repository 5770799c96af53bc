//! How an attempt is stopped, and why.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Why an attempt is asked to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StopReason {
    /// Somebody cancels the job. The handler has the cooperative grace to end by itself.
    CancelRequested,
    /// The worker shuts down and its grace is over. The job goes back, no attempt is burnt.
    ShuttingDown,
    /// The worker's lease is lost, or this attempt's claim on its job: whatever it returns is not recorded.
    LeaseLost,
    /// The attempt has taken longer than it may.
    TimedOut,
}

/// What stops an attempt. Clones stop the same one.
#[derive(Clone, Default)]
pub(super) struct Control {
    told: Arc<Told>,
    /// Tells the handler, and what it started, that the attempt is to stop.
    cancelled: CancellationToken,
    /// Drops the handler's future.
    forced: CancellationToken,
}

/// What an attempt was told, and what it tells.
#[derive(Default)]
struct Told {
    reason: OnceLock<StopReason>,
    /// It may have recorded its success itself.
    completed: AtomicBool,
}

impl Control {
    /// Notes that the attempt has written its success in a transaction of its own, committed or not.
    pub(super) fn complete(&self) {
        self.told.completed.store(true, Ordering::Release);
    }

    /// Says whether the attempt may have recorded its success itself, so that the store does not list it any more.
    pub(super) fn is_completed(&self) -> bool {
        self.told.completed.load(Ordering::Acquire)
    }

    /// Asks the attempt to end by itself. The first reason stands.
    pub(super) fn ask(&self, reason: StopReason) {
        // Whoever sees the token fire finds the reason.
        self.told.reason.get_or_init(|| reason);
        self.cancelled.cancel();
    }

    /// Ends the attempt. A reason that it was asked for before stands.
    pub(super) fn force(&self, reason: StopReason) {
        self.ask(reason);
        self.forced.cancel();
    }

    pub(super) fn reason(&self) -> Option<StopReason> {
        self.told.reason.get().copied()
    }

    pub(super) fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    pub(super) fn forced(&self) -> &CancellationToken {
        &self.forced
    }
}
