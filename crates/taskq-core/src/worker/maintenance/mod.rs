//! What the leader does for everybody: one sweep a file.
//!
//! A sweep is a bounded call that says whether it wants to run again at once. It can be repeated at any time. One
//! probe says which of them have anything to do.

mod forget;
mod mark_lost;
mod promote;
mod reclaim;

use std::time::Duration;

use tokio::time::Instant;

use super::backoff::Backoff;
use super::leader::{Fence, SLEEP_MAX};
use super::reach::{Gate, Reach};
use crate::store::{StoreError, SweepsDue};

/// Why a sweep's call gave nothing.
#[derive(Debug)]
pub(super) enum Halt {
    /// This worker does not lead any more.
    Over,
    /// The store failed.
    Failed(StoreError),
}

/// This worker does not lead any more.
#[derive(Debug)]
pub(super) struct Over;

/// What the leader remembers from round to round.
#[derive(Default)]
pub(super) struct Sweeps {
    probe: Pace,
    promote: promote::Promote,
    promote_pace: Pace,
    mark_lost_pace: Pace,
    reclaim: reclaim::Reclaim,
    reclaim_pace: Pace,
    forget_pace: Pace,
}

impl Sweeps {
    /// Looks at what is due and does it, a batch of each sweep in turn until nothing is left. Returns how long until
    /// there may be more.
    pub(super) async fn round(&mut self, fence: &Fence, reach: &Reach) -> Result<Duration, Over> {
        let Some(due) = self.probe(fence).await? else {
            return Ok(self.probe.wait(Instant::now()).unwrap_or_default());
        };
        let gate = reach.gate(Instant::now());
        let mut promote = due.next_due_in.is_some_and(|delay| delay.is_zero());
        let mut reclaim = due.lost;
        let mut mark_lost = due.lease_ended && gate != Gate::Closed;
        let mut forget = due.forgettable;
        if gate == Gate::AfterOutage && !mark_lost {
            reach.outage_is_dealt_with();
        }
        self.promote.expect(due.next_due_in.filter(|delay| !delay.is_zero()));
        let mut postponed = Vec::new();
        loop {
            if promote {
                let run = self.promote.run(fence);
                promote = turn(&mut postponed, "promote", &mut self.promote_pace, run).await?;
            }
            // Before others are declared lost: what was lost before an outage is not forgiven with it.
            if reclaim {
                let run = self.reclaim.run(fence);
                reclaim = turn(&mut postponed, "reclaim", &mut self.reclaim_pace, run).await?;
            }
            if mark_lost && !(gate == Gate::AfterOutage && reclaim) {
                let mut marked = 0;
                let run = mark_lost::run(fence, &mut marked);
                mark_lost = turn(&mut postponed, "mark_lost", &mut self.mark_lost_pace, run).await?;
                if marked > 0 {
                    reclaim = true;
                    self.reclaim_pace.reset();
                    self.reclaim.expect(gate == Gate::AfterOutage);
                }
                if gate == Gate::AfterOutage && !mark_lost && self.mark_lost_pace.is_free(Instant::now()) {
                    reach.outage_is_dealt_with();
                }
            }
            if forget {
                forget =
                    turn(&mut postponed, "forget_workers", &mut self.forget_pace, forget::run(fence)).await?;
            }
            if !(promote || reclaim || mark_lost || forget) {
                break;
            }
        }
        let now = Instant::now();
        Ok(postponed.into_iter().chain(self.promote.next(now)).min().unwrap_or(SLEEP_MAX))
    }

    /// Asks what is due. `None` when the store cannot be reached.
    async fn probe(&mut self, fence: &Fence) -> Result<Option<SweepsDue>, Over> {
        let answer = async {
            let (worker, epoch) = fence.pass()?;
            fence.call("sweeps_due", fence.store().sweeps_due(worker, epoch)).await
        };
        match answer.await {
            Ok(due) => {
                self.probe.reset();
                Ok(Some(due))
            }
            Err(Halt::Over) => Err(Over),
            Err(Halt::Failed(error)) if error.is_transient() => {
                tracing::warn!(%error, "the leader cannot ask what is due; it tries again");
                self.probe.failed(Instant::now());
                Ok(None)
            }
            // The probe saves calls, no more: without it everything may be due.
            Err(Halt::Failed(error)) => {
                tracing::error!(%error, "the store cannot say what is due; every sweep is run");
                let next_due_in = Some(Duration::ZERO);
                Ok(Some(SweepsDue { next_due_in, lease_ended: true, lost: true, forgettable: true }))
            }
        }
    }
}

/// What a batch of a sweep says of the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// At once: there may be more.
    Now,
    /// When it is due again.
    WhenDue,
    /// When it is due again, and no earlier than this.
    NotBefore(Duration),
}

/// Runs a batch, unless its sweep is to wait. Returns whether the sweep wants another at once. Its failure is its own.
async fn turn(
    postponed: &mut Vec<Duration>,
    sweep: &'static str,
    pace: &mut Pace,
    batch: impl Future<Output = Result<Next, Halt>>,
) -> Result<bool, Over> {
    if let Some(wait) = pace.wait(Instant::now()) {
        postponed.push(wait);
        return Ok(false);
    }
    match batch.await {
        Ok(Next::Now) => {
            pace.reset();
            return Ok(true);
        }
        Ok(Next::WhenDue) => pace.reset(),
        Ok(Next::NotBefore(wait)) => {
            pace.reset();
            pace.not_before = Instant::now().checked_add(wait);
        }
        Err(Halt::Over) => return Err(Over),
        Err(Halt::Failed(error)) => {
            if error.is_transient() {
                tracing::warn!(%error, sweep, "a sweep failed; it is tried again");
            } else {
                tracing::error!(%error, sweep, "a sweep was refused; it is tried again");
            }
            pace.failed(Instant::now());
        }
    }
    postponed.extend(pace.wait(Instant::now()));
    Ok(false)
}

/// When a sweep may run again.
struct Pace {
    backoff: Backoff,
    not_before: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
        Self { backoff, not_before: None }
    }
}

impl Pace {
    fn failed(&mut self, now: Instant) {
        self.not_before = Some(now + self.backoff.step());
    }

    fn reset(&mut self) {
        self.backoff.reset();
        self.not_before = None;
    }

    fn is_free(&self, now: Instant) -> bool {
        self.wait(now).is_none()
    }

    fn wait(&self, now: Instant) -> Option<Duration> {
        self.not_before.and_then(|at| at.checked_duration_since(now)).filter(|wait| !wait.is_zero())
    }
}
