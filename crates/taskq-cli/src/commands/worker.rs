//! `taskq worker`: runs jobs with programs.

use std::sync::Arc;

use taskq::{RunError, Worker, install_panic_hook};

use super::connect::connect;
use crate::config::WorkerSettings;
use crate::exit::{Exit, Failure, with_sources};
use crate::program::{Guard, ProgramHandler};

/// Runs a worker until the process is asked to end.
pub(super) async fn run(settings: WorkerSettings) -> Result<Exit, Failure> {
    install_panic_hook();
    let client = connect(&settings.database).await?;
    let guard = Guard::start()
        .map_err(|error| Failure::failed(format!("the guard of programs cannot be started: {error}")))?;
    let guard = Arc::new(guard);

    let times = settings.times;
    let mut builder = Worker::builder(&client)
        .cancel_grace(times.cancel_grace)
        .forced_grace(times.forced_grace)
        .shutdown_grace(times.shutdown_grace)
        .lease(times.lease);
    if let Some(period) = settings.retention.period {
        builder = builder.event_retention_period(period);
    }
    if let Some(size) = settings.retention.batch_size {
        builder = builder.event_retention_batch_size(size);
    }
    for (queue, slots) in &settings.queues {
        builder = builder.queue(queue.as_str(), *slots);
    }
    for actor in settings.actors {
        let name = actor.name.to_string();
        builder = builder.actor(name, ProgramHandler::new(actor, Arc::clone(&guard)));
    }
    let worker = builder.build().map_err(|error| Failure::usage(error.to_string()))?;

    let report = worker.run_until_signal().await.map_err(|error| match error {
        RunError::Refused(error) => error.into(),
        other => Failure::failed(with_sources(&other)),
    })?;
    tracing::info!(
        succeeded = report.succeeded,
        failed = report.failed,
        snoozed = report.snoozed,
        cancelled = report.cancelled,
        released = report.released,
        abandoned = report.abandoned,
        stale = report.stale,
        unsettled = report.unsettled,
        stuck = report.stuck,
        "the worker has stopped"
    );
    if report.exit_code() == 0 {
        return Ok(Exit::Done);
    }
    Err(Failure::failed(format!(
        "{} attempts have not ended and what became of {} could not be recorded: unless they were abandoned, \
         their jobs run again when the worker's lease has ended",
        report.stuck, report.unsettled
    )))
}
