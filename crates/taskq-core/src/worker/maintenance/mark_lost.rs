//! Declares workers lost whose lease has ended.

use super::super::leader::Fence;
use super::{Halt, Next};

/// The most workers of one call.
const BATCH: u32 = 1_000;

/// Runs one batch; `marked` is how many were declared lost.
pub(super) async fn run(fence: &Fence, marked: &mut u64) -> Result<Next, Halt> {
    let (worker, epoch) = fence.pass()?;
    *marked = fence.call("mark_lost", fence.store().mark_lost(worker, epoch, BATCH)).await?;
    if *marked > 0 {
        tracing::warn!(workers = *marked, "workers are lost: their leases have ended");
    }
    Ok(if *marked >= u64::from(BATCH) { Next::Now } else { Next::WhenDue })
}
