//! Makes due jobs ready.

use std::time::Duration;

use super::Next;
use crate::model::WorkerId;
use crate::store::{LeaderEpoch, Store, StoreError};

/// The most jobs of one call.
const BATCH: u32 = 1_000;
/// The next look when the store says that more is due and yet promoted nothing: someone holds the rows.
const CONTENDED: Duration = Duration::from_millis(20);
/// The next look when nothing is scheduled. The leader bounds it further.
const IDLE: Duration = Duration::from_mins(1);

/// Runs one batch.
pub(in crate::worker) async fn run(
    store: &dyn Store,
    worker: WorkerId,
    epoch: LeaderEpoch,
) -> Result<Next, StoreError> {
    let promoted = store.promote(worker, epoch, BATCH).await?;
    if promoted.jobs > 0 {
        tracing::debug!(jobs = promoted.jobs, "scheduled jobs became ready");
    }
    Ok(match promoted.next_due_in {
        Some(Duration::ZERO) if promoted.jobs > 0 => Next::Now,
        Some(Duration::ZERO) => Next::In(CONTENDED),
        Some(delay) => Next::In(delay),
        None => Next::In(IDLE),
    })
}
