//! Deletes workers that were lost long ago.

use std::time::Duration;

use super::super::leader::Fence;
use super::{Halt, Next};

/// The most workers of one call.
const BATCH: u32 = 1_000;
/// How often at most, unless a batch was full. Nobody waits for it.
const INTERVAL: Duration = Duration::from_mins(1);

/// Runs one batch.
pub(super) async fn run(fence: &Fence) -> Result<Next, Halt> {
    let (worker, epoch) = fence.pass()?;
    let forgotten = fence.call("forget_workers", fence.store().forget_workers(worker, epoch, BATCH)).await?;
    if forgotten > 0 {
        tracing::debug!(workers = forgotten, "lost workers are forgotten");
    }
    Ok(if forgotten >= u64::from(BATCH) { Next::Now } else { Next::NotBefore(INTERVAL) })
}
