//! Runs attempts on the user's runtime.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;

use super::attempts::{End, Key};
use super::handle::Stopper;
use super::handler::{ErasedHandler, Handlers};
use super::panics::Caught;
use super::session::Session;
use super::slots::Slot;
use super::stop::{Control, StopReason};
use super::{Context, JobError, JobErrorKind};
use crate::client::Client;
use crate::model::{ClaimedJob, ErrorRecord, Json, Outcome, Settlement};

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
    pub(super) outcomes: UnboundedSender<Settlement>,
    pub(super) stopper: Stopper,
}

impl Executor {
    pub(super) fn new(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// Runs a job. `slot` is freed when the attempt has ended.
    pub(super) fn start(&self, job: ClaimedJob, slot: Slot) {
        let Some((control, ending)) = self.begin(&job, Some(slot)) else { return };
        tracing::debug!(job = %job.id, actor = %job.actor, attempt = job.attempt, "the attempt starts");
        let inner = Arc::clone(&self.inner);
        self.inner.runtime.spawn(async move {
            match run(&inner, job, &control).await {
                Some(outcome) => ending.with(outcome),
                None => ending.without(),
            }
        });
    }

    /// Gives a job back that was claimed too late to be run.
    pub(super) fn release(&self, job: &ClaimedJob) {
        if let Some((_, ending)) = self.begin(job, None) {
            ending.with(Outcome::Released);
        }
    }

    fn begin(&self, job: &ClaimedJob, slot: Option<Slot>) -> Option<(Control, Ending)> {
        let key = (job.id, job.epoch);
        let Some(control) = self.inner.session.attempts.begin(key) else {
            tracing::error!(job = %job.id, epoch = %job.epoch, "the store handed out an attempt twice");
            return None;
        };
        let ending = Ending { inner: Arc::clone(&self.inner), key, outcome: None, void: false, slot };
        Some((control, ending))
    }
}

/// The end of an attempt: whatever happens to its task, it is told to the settler and its slot freed, once.
struct Ending {
    inner: Arc<Inner>,
    key: Key,
    outcome: Option<Outcome>,
    /// There is nothing to be settled.
    void: bool,
    slot: Option<Slot>,
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
        let (id, epoch) = self.key;
        let slot = self.slot.take();
        if self.void {
            tracing::debug!(job = %id, "the attempt has ended, its claim is lost");
            if self.inner.session.attempts.ended(self.key, 0) == End::Settle {
                self.inner.session.attempts.settled(std::iter::once(self.key));
            }
            drop(slot);
            return;
        }
        let outcome = self.outcome.take().unwrap_or_else(|| {
            tracing::error!(job = %id, "the runtime of the handlers is gone; the worker stops");
            self.inner.stopper.stop_now();
            Outcome::Released
        });
        tracing::debug!(job = %id, outcome = outcome.kind().as_str(), "the attempt has ended");
        if self.inner.session.attempts.ended(self.key, bytes(&outcome)) == End::Settle {
            // After a lost lease nobody listens: the store would not accept it.
            let _ = self.inner.outcomes.send(Settlement { id, epoch, outcome });
        }
        drop(slot);
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
    if !ctx.cleanup().is_empty() {
        ctx.cleanup().close();
        ctx.cleanup().wait().await;
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
        () = control.forced().cancelled() => stopped(control.reason().unwrap_or(StopReason::LeaseLost), ctx),
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
