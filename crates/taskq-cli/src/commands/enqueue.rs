//! `taskq enqueue`: writes one job.

use std::io;
use std::time::Duration;

use serde::Serialize;
use taskq::store::StoreError;
use taskq::{EnqueueError, EnqueueOutcome, Enqueued, JobId, NewJob, OnFinished, Schedule, Status};

use super::connect::connect;
use crate::cli::{EnqueueArgs, OnFinishedArg};
use crate::config::DatabaseSettings;
use crate::exit::{Exit, Failure, with_sources};
use crate::{output, parse};

/// How long an enqueue with an idempotency key waits for another of the same key.
const BUSY_LIMIT: Duration = Duration::from_secs(5);

#[derive(Serialize)]
struct Facts {
    id: JobId,
    outcome: EnqueueOutcome,
    /// `None` when an idempotency key outlived its job.
    status: Option<Status>,
}

/// Enqueues one job and prints its id.
pub(super) async fn run(args: EnqueueArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
    let json = args.output.json;
    let on_finished = args.on_finished;
    // Before the database is asked for: bad input needs no connection to be told.
    let job = new_job(args)?;
    let key = job.idempotency_key.clone();
    let client = connect(&database).await?;
    let enqueue = client.enqueue_raw(vec![job]);
    let answers = match &key {
        None => enqueue.await,
        Some(key) => tokio::time::timeout(BUSY_LIMIT, enqueue)
            .await
            .unwrap_or_else(|_| Err(EnqueueError::Busy { key: key.clone() })),
    };
    let answers = answers.map_err(failure)?;
    let Some(&Enqueued { id, outcome, status }) = answers.first() else {
        return Err(Failure::failed("the database did not answer for the job"));
    };
    let existing = outcome == EnqueueOutcome::Existing;
    let ended = existing && key.is_some() && status.is_none_or(Status::is_terminal);
    let refused = ended && on_finished.is_none();
    if json {
        output::json(&Facts { id, outcome, status })?;
    } else if !refused {
        output::line(&id.to_string())?;
    }
    let status = status.map_or("which is not there any more", Status::as_str);
    match key {
        Some(key) if refused => Err(Failure::failed(format!(
            "the idempotency key `{key}` belongs to the job {id} ({status}), which has ended: nothing was written \
             and nothing will run; say `--on-finished return` to be given that job, or `--on-finished run-again`"
        ))),
        Some(key) if existing => {
            let text = format!(
                "warning: the idempotency key `{key}` belongs to the job {id} ({status}); nothing was written"
            );
            output::note(&output::plain(&text));
            Ok(Exit::Done)
        }
        _ if existing => {
            output::note(&format!("warning: the job {id} was there already ({status}); nothing was written"));
            Ok(Exit::Done)
        }
        _ => Ok(Exit::Done),
    }
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
    job.fairness_key = args.fairness;
    job.idempotency_key = args.idempotency_key;
    job.on_finished = match args.on_finished {
        None | Some(OnFinishedArg::Return) => OnFinished::Return,
        Some(OnFinishedArg::RunAgain) => OnFinished::RunAgain,
    };
    Ok(job)
}

/// There is one job, so which element is refused says nothing.
fn failure(error: EnqueueError) -> Failure {
    match error {
        EnqueueError::Element { error, .. } => failure(*error),
        EnqueueError::Store(error) if refuses_the_text(&error) => Failure::usage(with_sources(&error)),
        EnqueueError::Store(error) => error.into(),
        busy @ EnqueueError::Busy { .. } => Failure::failed(busy.to_string()),
        input => Failure::usage(with_sources(&input)),
    }
}

/// PostgreSQL itself refuses some JSON that is well formed, such as half of a surrogate pair: a data exception
/// (class 22), or nesting beyond its stack (54001).
fn refuses_the_text(error: &StoreError) -> bool {
    matches!(error, StoreError::Database { sqlstate, .. } if sqlstate.starts_with("22") || sqlstate == "54001")
}
