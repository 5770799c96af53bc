//! Takes the jobs of lost workers from them.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::super::leader::Fence;
use super::{Halt, Next};
use crate::model::{JobId, Status};
use crate::store::Reclaimed;

/// The most jobs of one call.
const BATCH: u32 = 1_000;
/// The next look once nothing is left although the store may say so: of what is left, each has its problem.
const INTERVAL: Duration = Duration::from_secs(2);
/// How often a job that could not be moved is tried again.
const RETRY: Duration = Duration::from_mins(1);
/// How many jobs with problems are remembered. More than these would be a fault of everything.
const PROBLEMS_KEPT: usize = 1_000;

/// Remembers which jobs could not be moved.
#[derive(Default)]
pub(super) struct Reclaim {
    forgive: bool,
    /// When to try them again.
    problems: HashMap<JobId, Instant>,
}

impl Reclaim {
    /// Notes that workers were declared lost: with `forgive` in an outage of the store, so that what they ran burns no
    /// attempt.
    pub(super) fn expect(&mut self, forgive: bool) {
        self.forgive |= forgive;
    }

    /// Runs one batch.
    pub(super) async fn run(&mut self, fence: &Fence) -> Result<Next, Halt> {
        let now = Instant::now();
        let passed_over = self.problems.iter().filter(|(_, retry)| **retry > now);
        let skip: Vec<_> = passed_over.map(|(id, _)| *id).collect();
        let (worker, epoch) = fence.pass()?;
        let call = fence.store().reclaim(worker, epoch, BATCH, self.forgive, skip);
        let reclaimed = fence.call("reclaim", call).await?;
        if reclaimed.is_empty() {
            self.forgive = false;
            return Ok(Next::NotBefore(INTERVAL));
        }
        let moved = self.note(&reclaimed, now);
        // More problems than are remembered: without a pause they would come round for ever.
        let overwhelmed = moved == 0 && self.problems.len() >= PROBLEMS_KEPT;
        Ok(if overwhelmed { Next::NotBefore(INTERVAL) } else { Next::Now })
    }

    /// Returns how many jobs were moved.
    fn note(&mut self, reclaimed: &[Reclaimed], now: Instant) -> u64 {
        let (mut moved, mut crashed) = (0_u64, 0_u64);
        for job in reclaimed {
            let Some(problem) = &job.problem else {
                moved += 1;
                crashed += u64::from(job.status == Status::Crashed);
                self.problems.remove(&job.id);
                continue;
            };
            if self.problems.len() >= PROBLEMS_KEPT {
                self.evict();
            }
            if self.problems.insert(job.id, now + RETRY).is_none() {
                tracing::error!(job = %job.id, epoch = %job.epoch, problem, "a lost worker's job cannot be moved; it is tried again every minute");
            }
        }
        if moved > 0 {
            tracing::warn!(
                jobs = moved,
                crashed,
                forgiven = self.forgive,
                "jobs of lost workers were taken from them"
            );
        }
        moved
    }

    fn evict(&mut self) {
        if let Some(id) = self.problems.iter().min_by_key(|(_, retry)| **retry).map(|(id, _)| *id) {
            self.problems.remove(&id);
        }
    }
}
