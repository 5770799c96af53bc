//! A running worker, from outside.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::model::OutcomeKind;
use crate::store::StoreError;

/// A running worker. Dropping it leaves the worker running.
#[derive(Debug)]
pub struct WorkerHandle {
    stopper: Stopper,
    totals: Totals,
    supervisor: JoinHandle<Result<ShutdownReport, RunError>>,
}

impl WorkerHandle {
    pub(super) fn new(
        stopper: Stopper,
        totals: Totals,
        supervisor: JoinHandle<Result<ShutdownReport, RunError>>,
    ) -> Self {
        Self { stopper, totals, supervisor }
    }

    /// Asks the worker to shut down: it claims nothing more, lets attempts go on for the grace and takes back
    /// what is left. Returns at once.
    pub fn stop(&self) {
        self.stopper.stop();
    }

    /// Asks the worker to shut down without a grace. Returns at once.
    pub fn stop_now(&self) {
        self.stopper.stop_now();
    }

    /// Returns something cheap to clone that can stop the worker, also while it is joined.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Returns what the worker has done so far. Its [`stuck`](ShutdownReport::stuck) is a gauge: attempts that were
    /// given up, since they did not end when they were stopped, and that go on in their slots.
    pub fn counts(&self) -> ShutdownReport {
        self.totals.report(self.totals.stuck_now())
    }

    /// Says whether the worker has shut down.
    pub fn is_finished(&self) -> bool {
        self.supervisor.is_finished()
    }

    /// Waits until the worker has shut down. It does so only when asked to, or when its first session is
    /// refused.
    ///
    /// # Errors
    /// [`RunError`] when the store refuses the worker.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the worker running.
    pub async fn join(self) -> Result<ShutdownReport, RunError> {
        self.supervisor.await.unwrap_or_else(|error| Err(RunError::Engine(error.to_string())))
    }
}

/// Stops a worker. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Stopper {
    stop: CancellationToken,
    now: CancellationToken,
}

impl Stopper {
    /// Asks the worker to shut down, as [`WorkerHandle::stop`] does.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Asks the worker to shut down without a grace, as [`WorkerHandle::stop_now`] does.
    pub fn stop_now(&self) {
        self.stop.cancel();
        self.now.cancel();
    }

    /// Fires when the worker is to claim nothing more.
    pub(super) fn stopping(&self) -> &CancellationToken {
        &self.stop
    }

    /// Fires when the worker is to take back what still runs.
    pub(super) fn stopping_now(&self) -> &CancellationToken {
        &self.now
    }
}

/// Why a worker did not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The store refused the worker's first session.
    #[error("the store refuses the worker")]
    Refused(#[source] StoreError),
    /// The process cannot receive signals.
    #[error("the process cannot receive signals")]
    Signals(#[source] io::Error),
    /// The worker's own loop ended unexpectedly: its runtime was shut down, or it met a bug.
    #[error("the worker's own loop ended unexpectedly: {0}")]
    Engine(String),
}

/// What a worker did from its start to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Attempts recorded as succeeded.
    pub succeeded: u64,
    /// Attempts recorded as failed, whether tried again or not.
    pub failed: u64,
    /// Attempts recorded as snoozed.
    pub snoozed: u64,
    /// Attempts recorded as cancelled.
    pub cancelled: u64,
    /// Attempts recorded as abandoned: they did not end although they were forced to, and are never tried again.
    pub abandoned: u64,
    /// Attempts given back unfinished without burning one.
    pub released: u64,
    /// Outcomes that the store did not accept: another attempt owned the job, or the session was over.
    pub stale: u64,
    /// Outcomes that could not be recorded before the session's lease ended.
    pub unsettled: u64,
    /// Attempts that had not ended when the worker did: handlers that block their thread, or cleanup that goes on. The
    /// jobs of those that were not abandoned before stay with the dead session until its lease has ended, and are then
    /// tried again.
    pub stuck: u64,
}

impl ShutdownReport {
    /// Returns what the process should exit with.
    ///
    /// | code | meaning |
    /// |---|---|
    /// | 0 | every attempt has ended and is recorded, or was given back |
    /// | 1 | an attempt was stuck, or an outcome could not be recorded: its job waits for the lease to end |
    ///
    /// A process with a stuck attempt should leave by [`std::process::exit`]: a runtime that is dropped waits for
    /// threads that never end.
    pub const fn exit_code(&self) -> i32 {
        if self.stuck == 0 && self.unsettled == 0 { 0 } else { 1 }
    }
}

/// Counts what becomes of attempts.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    succeeded: AtomicU64,
    failed: AtomicU64,
    snoozed: AtomicU64,
    cancelled: AtomicU64,
    released: AtomicU64,
    abandoned: AtomicU64,
    stale: AtomicU64,
    unsettled: AtomicU64,
    stuck: AtomicU64,
}

impl Totals {
    pub(super) fn recorded(&self, kind: OutcomeKind) {
        let counter = match kind {
            OutcomeKind::Succeeded => &self.0.succeeded,
            // A worker never reports a crash; should it ever, the attempt did fail.
            OutcomeKind::Failed | OutcomeKind::Crashed => &self.0.failed,
            OutcomeKind::Snoozed => &self.0.snoozed,
            OutcomeKind::Released => &self.0.released,
            OutcomeKind::Cancelled => &self.0.cancelled,
            OutcomeKind::Abandoned => &self.0.abandoned,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stale(&self) {
        self.0.stale.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn unsettled(&self, outcomes: u64) {
        self.0.unsettled.fetch_add(outcomes, Ordering::Relaxed);
    }

    /// Notes that an attempt was given up although its task goes on.
    pub(super) fn stuck(&self) {
        self.0.stuck.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that the task of an attempt that was given up has ended after all.
    pub(super) fn unstuck(&self) {
        self.0.stuck.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn stuck_now(&self) -> u64 {
        self.0.stuck.load(Ordering::Acquire)
    }

    pub(super) fn report(&self, stuck: u64) -> ShutdownReport {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ShutdownReport {
            succeeded: read(&self.0.succeeded),
            failed: read(&self.0.failed),
            snoozed: read(&self.0.snoozed),
            cancelled: read(&self.0.cancelled),
            abandoned: read(&self.0.abandoned),
            released: read(&self.0.released),
            stale: read(&self.0.stale),
            unsettled: read(&self.0.unsettled),
            stuck,
        }
    }
}
