//! Ends a worker in good order.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Worker;
use super::backoff::Backoff;
use super::handle::{RunError, ShutdownReport, Stopper};
use super::session::Session;
use super::stop::StopReason;
use super::supervisor::{Loops, Supervisor};
use crate::model::WorkerId;

/// How long the session's release is tried. If it fails, the session ends with its lease.
const RELEASE_LIMIT: Duration = Duration::from_secs(5);

/// Ends the last session: claims nothing more, gives back what has not started, lets attempts go on for the grace, takes
/// back what is left, settles everything.
pub(super) async fn run(supervisor: &Supervisor, session: &Session, loops: &mut Loops) {
    tracing::info!(worker = %session.id, running = session.attempts.running(), "the worker shuts down");
    session.close();
    let orderly = async {
        let calm = async {
            // A claim in flight is awaited: what it returns must be known to be given back.
            if !loops.claimer.is_finished() {
                let _ = (&mut loops.claimer).await;
            }
            session.attempts.none_running().await;
        };
        tokio::select! {
            () = calm => {}
            () = tokio::time::sleep(supervisor.worker.grace) => {}
            () = supervisor.stopper.stopping_now().cancelled() => {}
        }
        session.attempts.force_all(StopReason::ShuttingDown, Instant::now());
        // A handler that cannot be stopped must not stop the rest from being settled.
        let _ = timeout(supervisor.worker.graces.forced, session.attempts.none_running()).await;
        // Bounded, since a store may answer beats and yet let settles wait.
        let _ = timeout(supervisor.worker.lease, session.attempts.none_unsettled()).await;
    };
    let lost = tokio::select! {
        // The heartbeat goes on meanwhile; without it nothing could be settled.
        () = session.lost.cancelled() => true,
        () = orderly => false,
    };
    if lost {
        if supervisor.abandon(session, loops).await == 0 {
            release(supervisor, session.id).await;
        }
        return;
    }
    // What a claim in flight may still bring goes back with the session.
    loops.claimer.abort();
    let (stuck, unsettled) = (session.attempts.running(), session.attempts.unsettled());
    if unsettled > 0 {
        tracing::warn!(worker = %session.id, outcomes = unsettled, "outcomes could not be settled in time");
        supervisor.totals.unsettled(unsettled as u64);
    }
    if stuck > 0 {
        // Their jobs must not run elsewhere while they run here: they stay with the session until its lease ends.
        tracing::error!(worker = %session.id, attempts = stuck, "attempts have not ended; their jobs are not given back");
    } else {
        release(supervisor, session.id).await;
    }
}

/// Gives back what a session holds whose attempts have all ended.
pub(super) async fn release(supervisor: &Supervisor, session: WorkerId) {
    let mut backoff = Backoff::brisk();
    let released = async {
        while let Err(error) = supervisor.reach.call(supervisor.store.release_worker(session)).await {
            tracing::warn!(%error, "the session cannot be released; it is tried again");
            tokio::time::sleep(backoff.step()).await;
        }
    };
    if timeout(RELEASE_LIMIT, released).await.is_err() {
        tracing::warn!(worker = %session, "the session is left to end with its lease");
    }
}

pub(super) async fn run_until_signal(worker: Worker) -> Result<ShutdownReport, RunError> {
    // Before the start: a process that cannot be told to end should not begin.
    let mut signals = Signals::new().map_err(RunError::Signals)?;
    let handle = worker.start();
    let stopper = handle.stopper();
    let _stop_when_dropped = StopWhenDropped(stopper.clone());
    let join = handle.join();
    tokio::pin!(join);
    let mut asked_before = false;
    loop {
        tokio::select! {
            report = &mut join => return report,
            () = signals.next() => {
                if asked_before {
                    stopper.stop_now();
                } else {
                    tracing::info!("asked to end: attempts may go on for the grace; ask again to end now");
                    stopper.stop();
                }
                asked_before = true;
            }
        }
    }
}

struct StopWhenDropped(Stopper);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals(());

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self(()))
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}
