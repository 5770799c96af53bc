//! A program as the handler of an actor.

use std::sync::Arc;

use taskq::{Context, JobError, JobResult, Json, RawHandler};

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
        // Cancelled with the attempt, and also when this future is dropped for any other reason.
        let stop = ctx.cancelled().child_token();
        let stop_when_dropped = stop.clone().drop_guard();
        let command = self.actor.command.clone();
        let guard = Arc::clone(&self.guard);
        let environment = environment(&ctx);
        // On the tracker, so that the attempt is not settled before the program is reaped.
        let run = ctx.cleanup().spawn(async move {
            let payload = payload.as_str().as_bytes();
            let attempt = Attempt { command: &command, payload, environment: &environment };
            run(&guard, &attempt, &stop).await
        });
        let ended = run.await?.map_err(|error| JobError::from(error).with_class("program"))?;
        drop(stop_when_dropped.disarm());
        if ended.stopped && ended.status.code().is_none() {
            // We killed it. That is no outcome of the program: whoever stopped the attempt says what becomes of
            // it, and drops this future.
            std::future::pending::<()>().await;
        }
        outcome(&ended, self.actor.snooze)
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
