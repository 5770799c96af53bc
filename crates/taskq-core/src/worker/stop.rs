//! How an attempt is stopped, and why.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use futures_util::task::AtomicWaker;
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
///
/// Most attempts are never stopped and never ask, so all that costs is made when it is needed.
#[derive(Clone, Default)]
pub(super) struct Control(Arc<Inner>);

#[derive(Default)]
struct Inner {
    reason: OnceLock<StopReason>,
    /// It may have recorded its success itself.
    completed: AtomicBool,
    /// Tells the handler, and what it started, that the attempt is to stop.
    cancelled: OnceLock<CancellationToken>,
    /// The handler's future is to be dropped.
    forced: AtomicBool,
    /// Who drops it.
    runner: AtomicWaker,
}

impl Control {
    /// Notes that the attempt has written its success in a transaction of its own, committed or not.
    pub(super) fn complete(&self) {
        self.0.completed.store(true, Ordering::Release);
    }

    /// Says whether the attempt may have recorded its success itself, so that the store does not list it any more.
    pub(super) fn is_completed(&self) -> bool {
        self.0.completed.load(Ordering::Acquire)
    }

    /// Asks the attempt to end by itself. The first reason stands.
    pub(super) fn ask(&self, reason: StopReason) {
        // Whoever sees the token fire finds the reason.
        self.0.reason.get_or_init(|| reason);
        self.cancelled().cancel();
    }

    /// Ends the attempt. A reason that it was asked for before stands.
    pub(super) fn force(&self, reason: StopReason) {
        self.ask(reason);
        self.0.forced.store(true, Ordering::Release);
        self.0.runner.wake();
    }

    pub(super) fn reason(&self) -> Option<StopReason> {
        self.0.reason.get().copied()
    }

    pub(super) fn cancelled(&self) -> &CancellationToken {
        self.0.cancelled.get_or_init(CancellationToken::new)
    }

    /// Waits until the attempt is forced to end. One task waits at a time: the one that runs it.
    pub(super) async fn forced(&self) {
        poll_fn(|cx| {
            // Registered before the look, so that no wake-up falls between them.
            self.0.runner.register(cx.waker());
            if self.0.forced.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
