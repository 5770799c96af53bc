//! Makes due jobs ready.

use std::time::Duration;

use tokio::time::Instant;

use super::super::leader::Fence;
use super::{Halt, Next};

/// The most jobs of one call.
const BATCH: u32 = 1_000;
/// The next look when the store says that more is due and yet promoted nothing: someone holds the rows.
const CONTENDED: Duration = Duration::from_millis(20);

/// Knows when the next job is due.
#[derive(Default)]
pub(super) struct Promote {
    next_due: Option<Instant>,
}

impl Promote {
    /// Notes how long it is until the next job is due.
    pub(super) fn expect(&mut self, next_due_in: Option<Duration>) {
        self.next_due = next_due_in.and_then(|delay| Instant::now().checked_add(delay));
    }

    /// Returns how long it is until the next job is due.
    pub(super) fn next(&self, now: Instant) -> Option<Duration> {
        self.next_due.map(|due| due.saturating_duration_since(now))
    }

    /// Runs one batch.
    pub(super) async fn run(&mut self, fence: &Fence) -> Result<Next, Halt> {
        // Until the answer says otherwise: a failure is not repeated because something is due.
        self.next_due = None;
        let (worker, epoch) = fence.pass()?;
        let promoted = fence.call("promote", fence.store().promote(worker, epoch, BATCH)).await?;
        if promoted.jobs > 0 {
            tracing::debug!(jobs = promoted.jobs, "scheduled jobs became ready");
        }
        if promoted.next_due_in != Some(Duration::ZERO) {
            self.expect(promoted.next_due_in);
            return Ok(Next::WhenDue);
        }
        Ok(if promoted.jobs > 0 { Next::Now } else { Next::NotBefore(CONTENDED) })
    }
}
