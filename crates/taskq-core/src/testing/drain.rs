//! Runs a worker until there is nothing left to do.

use std::time::Duration;

use crate::client::Client;
use crate::model::{ActorName, QueueName};
use crate::store::{ActorSummary, StoreError};
use crate::worker::{RunError, ShutdownReport, Worker};

/// How often the store is asked whether anything is left.
const LOOK: Duration = Duration::from_millis(2);

/// Why a drain did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DrainError {
    /// What is left in the queues is for an actor that nobody serves.
    #[error("jobs of the actor \"{actor}\" are ready in the queue \"{queue}\", and no worker has a handler")]
    Unserved {
        /// The queue.
        queue: QueueName,
        /// The actor without a handler.
        actor: ActorName,
    },
    /// The worker did not run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The store could not say what is left.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Runs a worker until no job of its queues is ready or running, then stops it.
///
/// What jobs enqueue while they run is run as well. Jobs that wait for a time are left alone, so a retry that is
/// scheduled for later does not keep this from returning.
///
/// # Errors
/// [`DrainError::Unserved`] when only jobs are left that no worker has a handler for; otherwise what the worker
/// or the store failed with.
///
/// # Cancel safety
/// Dropping the future leaves the worker running.
pub async fn drain(worker: Worker) -> Result<ShutdownReport, DrainError> {
    let client = worker.client().clone();
    let queues: Vec<_> = worker.queues().cloned().collect();
    let actors: Vec<_> = worker.actors().cloned().collect();
    let handle = worker.start();
    let mut looks = tokio::time::interval(LOOK);
    let mut left = Ok(true);
    while let Ok(true) = left
        && !handle.is_finished()
    {
        looks.tick().await;
        left = anything_left(&client, &queues, &actors).await;
    }
    handle.stop();
    let report = handle.join().await?;
    left?;
    Ok(report)
}

async fn anything_left(
    client: &Client,
    queues: &[QueueName],
    actors: &[ActorName],
) -> Result<bool, DrainError> {
    // One answer about ready and running jobs: between two a job could change from one to the other.
    let (mut pending, mut running) = (0, 0);
    for summary in client.store().queues().await? {
        if queues.contains(&summary.queue) {
            pending += summary.pending.value;
            running += summary.running.value;
        }
    }
    if pending == 0 || running > 0 {
        return Ok(running > 0);
    }
    let unserved = client.store().stats().await?.unserved;
    // The worker's own actors are served as soon as it has registered.
    let hopeless = |lane: &ActorSummary| queues.contains(&lane.queue) && !actors.contains(&lane.actor);
    let unserved: Vec<_> = unserved.into_iter().filter(hopeless).collect();
    let waiting: u64 = unserved.iter().map(|lane| lane.pending.value).sum();
    match unserved.into_iter().next() {
        Some(ActorSummary { queue, actor, .. }) if waiting >= pending => {
            Err(DrainError::Unserved { queue, actor })
        }
        _ => Ok(true),
    }
}
