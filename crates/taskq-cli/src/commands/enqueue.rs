//! `taskq enqueue`: writes one job.

use std::io;

use serde::Serialize;
use taskq::store::StoreError;
use taskq::{EnqueueError, EnqueueOutcome, Enqueued, JobId, NewJob, Schedule, Status};

use super::connect::connect;
use crate::cli::EnqueueArgs;
use crate::config::DatabaseSettings;
use crate::exit::{Exit, Failure, with_sources};
use crate::{output, parse};

#[derive(Serialize)]
struct Facts {
    id: JobId,
    outcome: EnqueueOutcome,
    status: Status,
}

/// Enqueues one job and prints its id.
pub(super) async fn run(args: EnqueueArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
    let json = args.output.json;
    // Before the database is asked for: bad input needs no connection to be told.
    let job = new_job(args)?;
    let client = connect(&database).await?;
    let answers = client.enqueue_raw(vec![job]).await.map_err(failure)?;
    let Some(&Enqueued { id, outcome, status }) = answers.first() else {
        return Err(Failure::failed("the database did not answer for the job"));
    };
    if json {
        output::json(&Facts { id, outcome, status })?;
    } else {
        output::line(&id.to_string())?;
    }
    if outcome == EnqueueOutcome::Existing {
        output::note(&format!("warning: the job {id} was there already ({status}); nothing was written"));
    }
    Ok(Exit::Done)
}

fn new_job(args: EnqueueArgs) -> Result<NewJob, Failure> {
    let payload = parse::payload(&args.payload, io::stdin().lock())?;
    let mut job = NewJob::new(args.queue, args.actor, payload);
    if let Some(id) = args.id {
        job.id = id;
    }
    job.priority = args.priority;
    job.schedule = match (args.delay, args.at) {
        (Some(delay), _) => Schedule::After(delay),
        (None, Some(time)) => Schedule::At(time),
        (None, None) => Schedule::Now,
    };
    job.schedule_to_close = args.deadline;
    job.start_to_close = args.start_to_close;
    job.max_attempts = args.max_attempts;
    job.tags = args.tags;
    Ok(job)
}

/// There is one job, so which element is refused says nothing.
fn failure(error: EnqueueError) -> Failure {
    match error {
        EnqueueError::Element { error, .. } => failure(*error),
        EnqueueError::Store(error) if refuses_the_text(&error) => Failure::usage(with_sources(&error)),
        EnqueueError::Store(error) => error.into(),
        input => Failure::usage(with_sources(&input)),
    }
}

/// PostgreSQL itself refuses some JSON that is well formed, such as half of a surrogate pair: a data exception
/// (class 22), or nesting beyond its stack (54001).
fn refuses_the_text(error: &StoreError) -> bool {
    matches!(error, StoreError::Database { sqlstate, .. } if sqlstate.starts_with("22") || sqlstate == "54001")
}
