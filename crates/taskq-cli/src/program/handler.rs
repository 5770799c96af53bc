//! A program as the handler of an actor.

use std::sync::Arc;

use taskq::{Context, JobError, JobResult, Json, RawHandler, StopReason};
use tokio_util::sync::CancellationToken;

use super::run::{Attempt, run};
use super::{Guard, outcome};
use crate::config::ProgramActor;

/// Runs a program for each attempt.
#[derive(Debug)]
pub(crate) struct ProgramHandler {
    actor: ProgramActor,
    guard: Arc<Guard>,
}

impl ProgramHandler {
    /// Makes the handler of one actor.
    pub(crate) fn new(actor: ProgramActor, guard: Arc<Guard>) -> Self {
        Self { actor, guard }
    }
}

impl RawHandler for ProgramHandler {
    async fn run(&self, payload: Json, ctx: Context) -> JobResult<Option<Json>> {
        // Fires when this future is dropped, which is how an attempt is forced to end.
        let stop = CancellationToken::new();
        let stop_when_dropped = stop.clone().drop_guard();
        let ask = cancel_requested(ctx.clone());
        let command = self.actor.command.clone();
        let guard = Arc::clone(&self.guard);
        let environment = environment(&ctx);
        // On the tracker, so that the attempt is not settled before the program is reaped.
        let run = ctx.cleanup().spawn(async move {
            let payload = payload.as_str().as_bytes();
            let attempt = Attempt { command: &command, payload, environment: &environment };
            run(&guard, &attempt, ask, &stop).await
        });
        let ended = run.await?.map_err(|error| JobError::from(error).with_class("program"))?;
        drop(stop_when_dropped.disarm());
        outcome(&ended, self.actor.snooze)
    }
}

/// Waits until somebody cancels the job: its program may end by itself then. Whatever else stops an attempt drops its
/// handler in the same moment, and there is nothing to be asked for.
async fn cancel_requested(ctx: Context) {
    ctx.cancelled().cancelled().await;
    if ctx.stop_reason() != Some(StopReason::CancelRequested) {
        std::future::pending::<()>().await;
    }
}

fn environment(ctx: &Context) -> Vec<(&'static str, String)> {
    let mut environment = vec![
        ("TASKQ_JOB_ID", ctx.id().to_string()),
        ("TASKQ_ATTEMPT", ctx.attempt().to_string()),
        ("TASKQ_QUEUE", ctx.queue().to_string()),
        ("TASKQ_ACTOR", ctx.actor().to_string()),
    ];
    if let Some(deadline) = ctx.schedule_to_close() {
        environment.push(("TASKQ_DEADLINE", deadline.to_string()));
    }
    environment
}
