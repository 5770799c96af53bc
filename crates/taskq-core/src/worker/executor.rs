//! Runs attempts on the user's runtime.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::attempts::{End, Key, Next};
use super::handle::Stopper;
use super::handler::{ErasedHandler, Handlers};
use super::panics::Caught;
use super::session::Session;
use super::slots::Slot;
use super::stop::{Control, StopReason};
use super::{Context, JobError, JobErrorKind};
use crate::client::Client;
use crate::model::{ClaimedJob, ErrorRecord, Json, Outcome};

/// Starts attempts. Cheap to clone.
#[derive(Clone)]
pub(super) struct Executor {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) session: Arc<Session>,
    pub(super) client: Client,
    pub(super) handlers: Arc<Handlers>,
    /// The user's.
    pub(super) runtime: Handle,
    pub(super) stopper: Stopper,
}

impl Executor {
    pub(super) fn new(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// Lets a slot that was taken for a job that waits run it, and then whatever waits, as long as something does.
    pub(super) fn run(&self, slot: Slot) {
        let runner = Runner { inner: Arc::clone(&self.inner), slot, called: true };
        self.inner.runtime.spawn(runner.run());
    }
}

/// A taken slot at work. It is freed when this is gone, and then for good: nothing of it runs any more.
struct Runner {
    inner: Arc<Inner>,
    slot: Slot,
    /// The slot was taken for a job and has not asked for it yet.
    called: bool,
}

impl Runner {
    async fn run(mut self) {
        while let Some((job, control)) = self.next() {
            let key = (job.id, job.epoch);
            tracing::debug!(job = %job.id, actor = %job.actor, attempt = job.attempt, "the attempt starts");
            let ending = Ending { inner: Arc::clone(&self.inner), key, outcome: None, void: false };
            match run(&self.inner, job, &control).await {
                Some(outcome) => ending.with(outcome),
                None => ending.without(),
            }
            // Jobs that never wait for anything still leave others their turn.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Takes the job that waits first.
    fn next(&mut self) -> Option<(ClaimedJob, Control)> {
        let session = &self.inner.session;
        loop {
            let now = Instant::now();
            // After a freeze the lease may be over before the heartbeat has noticed: the jobs are somebody else's by then.
            if session.is_overdue(now) {
                self.decline();
                return None;
            }
            match session.attempts.next(self.slot.queue(), std::mem::take(&mut self.called), now)? {
                Next::Start { job, control, low } => {
                    if low {
                        session.slots.wake();
                    }
                    return Some((job, control));
                }
                Next::Late(key) => {
                    tracing::debug!(job = %key.0, "the deadline may have passed while the job waited; it is given back");
                    session.settle(key, Outcome::Released);
                }
            }
        }
    }

    /// Says, if that is still awaited, that the slot will not ask for a job.
    fn decline(&mut self) -> bool {
        let called = std::mem::take(&mut self.called);
        if called {
            self.inner.session.attempts.not_called(self.slot.queue());
        }
        called
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if self.decline() {
            tracing::error!("the runtime of the handlers is gone; the worker stops");
            self.inner.stopper.stop_now();
        }
    }
}

/// The end of an attempt: whatever happens to its task, it is told to the settler, once.
struct Ending {
    inner: Arc<Inner>,
    key: Key,
    outcome: Option<Outcome>,
    /// There is nothing to be settled.
    void: bool,
}

impl Ending {
    fn with(mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }

    /// Ends the attempt without an outcome: it was stopped because its claim is lost.
    fn without(mut self) {
        self.void = true;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let (session, key, now) = (&self.inner.session, self.key, Instant::now());
        if self.void {
            tracing::debug!(job = %key.0, "the attempt has ended, its claim is lost");
            if session.attempts.ended(key, 0, now) == End::Settle {
                session.attempts.settled(std::iter::once(key));
            }
            return;
        }
        let outcome = self.outcome.take().unwrap_or_else(|| {
            tracing::error!(job = %key.0, "the runtime of the handlers is gone; the worker stops");
            self.inner.stopper.stop_now();
            Outcome::Released
        });
        tracing::debug!(job = %key.0, outcome = outcome.kind().as_str(), "the attempt has ended");
        if session.attempts.ended(key, bytes(&outcome), now) == End::Settle {
            session.settle(key, outcome);
        }
    }
}

/// Runs an attempt to its end. `None` when nothing is to be settled of it.
async fn run(inner: &Inner, job: ClaimedJob, control: &Control) -> Option<Outcome> {
    let key = (job.id, job.epoch);
    let handler = inner.handlers.get(&job.actor).cloned();
    let (payload, ctx) = Context::split(job, inner.session.id, inner.client.clone(), control.clone());
    let Some(handler) = handler else {
        let message = format!("this worker has no handler for the actor \"{}\"", ctx.actor());
        return Some(JobError::from(message).with_class("no_handler").into_outcome());
    };
    if let Some(deadline) = ctx.deadline() {
        inner.session.attempts.bound(key, deadline);
    }
    let outcome = attempt(handler, payload, &ctx, control).await;
    // The future is gone; what it left behind must end before anybody else may run the job.
    if let Some(cleanup) = ctx.begun_cleanup() {
        cleanup.close();
        cleanup.wait().await;
    }
    outcome
}

async fn attempt(
    handler: Arc<dyn ErasedHandler>,
    payload: Json,
    ctx: &Context,
    control: &Control,
) -> Option<Outcome> {
    let mut running = Caught::new(handler.run(payload, ctx.clone()));
    tokio::select! {
        // A handler that is done in time is not overruled by a stop of the same moment.
        biased;
        result = &mut running => Some(match result {
            Ok(Ok(result)) => Outcome::Succeeded { result },
            Ok(Err(error)) => match control.reason() {
                // It failed because it was stopped.
                Some(reason) if reason != StopReason::CancelRequested && error.kind() == JobErrorKind::Retry => {
                    return stopped(reason, ctx);
                }
                _ => error.into_outcome(),
            },
            Err(panic) => Outcome::Failed { error: panic, delay: None, is_final: false },
        }),
        () = control.forced() => stopped(control.reason().unwrap_or(StopReason::LeaseLost), ctx),
    }
}

/// What is recorded of an attempt whose future was dropped.
fn stopped(reason: StopReason, ctx: &Context) -> Option<Outcome> {
    Some(match reason {
        StopReason::CancelRequested => {
            let error = ErrorRecord::new("cancelled", "cancelled on request while it ran");
            Outcome::Cancelled { error: Some(error) }
        }
        StopReason::TimedOut => {
            let bound = ctx.start_to_close().unwrap_or_default();
            let error = ErrorRecord::new("timeout", &format!("the attempt took longer than {bound:?}"));
            Outcome::Failed { error, delay: None, is_final: false }
        }
        StopReason::ShuttingDown => Outcome::Released,
        StopReason::LeaseLost => return None,
    })
}

fn bytes(outcome: &Outcome) -> usize {
    let of_error =
        |error: &ErrorRecord| error.message.len() + error.backtrace.as_ref().map_or(0, String::len);
    match outcome {
        Outcome::Succeeded { result } => result.as_ref().map_or(0, |json| json.as_str().len()),
        Outcome::Failed { error, .. } | Outcome::Abandoned { error } => of_error(error),
        Outcome::Cancelled { error } => error.as_ref().map_or(0, of_error),
        Outcome::Snoozed { .. } | Outcome::Released => 0,
    }
}
