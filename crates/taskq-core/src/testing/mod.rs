//! Helpers for the tests of programs that use taskq.
//!
//! [`run`] and [`run_attempt`] run a handler on a payload without any store. [`drain`] runs a worker until its
//! queues are empty; with a [`MemoryStore`] that needs no database.

mod drain;

use std::sync::Arc;

use crate::client::{Client, Job};
use crate::model::{ClaimedJob, Epoch};
use crate::store::memory::{Clock, MemoryStore};
use crate::worker::{Handler, JobResult, run_alone};

pub use drain::{DrainError, drain};

/// Makes a client of a new, empty in-memory store under the machine's clock.
pub fn client() -> Client {
    Client::new(Arc::new(MemoryStore::new(Clock::system())))
}

/// Runs a handler on a job, as its first attempt.
///
/// The job passes through JSON as it would through a store, and so does the output: what does not survive that
/// is an error here too. A panic is the caller's. The context's client has an empty in-memory store of its own.
///
/// # Errors
/// What the handler returned, or why the payload or the output cannot be stored.
///
/// # Cancel safety
/// Dropping the future drops the handler's, at whatever await it is.
pub async fn run<J: Job, H: Handler<J>>(handler: H, job: J) -> JobResult<J::Output> {
    run_attempt(handler, job, 1).await
}

/// Runs a handler on a job as [`run`] does, as its `attempt`-th attempt (from 1).
///
/// # Errors
/// What the handler returned, or why the payload or the output cannot be stored.
///
/// # Cancel safety
/// Dropping the future drops the handler's, at whatever await it is.
pub async fn run_attempt<J: Job, H: Handler<J>>(handler: H, job: J, attempt: i32) -> JobResult<J::Output> {
    let new = client().enqueue(&job).into_new_job()?;
    drop(job);
    let now = Clock::system().now();
    let claimed = ClaimedJob {
        id: new.id,
        queue: new.queue,
        actor: new.actor,
        epoch: Epoch(i64::from(attempt)),
        attempt,
        max_attempts: new.max_attempts,
        priority: new.priority,
        payload: new.payload,
        payload_version: new.payload_version,
        scheduled_at: now,
        schedule_to_close: None,
        start_to_close: None,
        metadata: None,
        tags: Vec::new(),
        trace_context: None,
    };
    run_alone(handler, claimed, client()).await
}
