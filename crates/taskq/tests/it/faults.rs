//! What faults do to workers, each in its shortest form; `cargo xtask soak` has the long ones.

mod listener;
mod network;
mod processes;
mod replies;

#[path = "../soak/by_hand.rs"]
mod by_hand;
#[path = "../soak/crew.rs"]
mod crew;

use std::time::Duration;

use taskq::prelude::*;
use taskq::{OutcomeKind, WorkerHandle};
use taskq_testkit::wait_until;

/// How long anything may take that takes moments on an idle machine.
const WITHIN: Duration = Duration::from_mins(1);

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(actor = "echo", output = i64)]
struct Echo;

/// Returns the epoch under which it ran.
async fn echo(_: Echo, ctx: Context) -> JobResult<i64> {
    Ok(ctx.epoch().0)
}

/// A worker that does nothing but lead, once it does.
pub(crate) async fn leading(url: &str) -> WorkerHandle {
    let taskq = TaskQ::connect(url).await.unwrap();
    let builder = Worker::builder(&taskq).queue("nothing", 1).actor("nothing", async |_, _| Ok(None));
    let worker = builder.build().unwrap().start();
    wait_until("a leader", WITHIN, async || taskq.leader().await.unwrap().is_some()).await;
    worker
}

/// The attempts of a job that did not end it: outcome, epoch, attempt.
async fn past(taskq: &TaskQ, id: taskq::JobId) -> Vec<(OutcomeKind, i64, i32)> {
    let attempts = taskq.store().attempts(id).await.unwrap();
    attempts.iter().map(|attempt| (attempt.outcome, attempt.epoch.0, attempt.attempt)).collect()
}
