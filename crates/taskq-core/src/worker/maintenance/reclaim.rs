//! Takes the jobs of lost workers from them, and remembers those that cannot be moved.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::super::leader::Fence;
use super::super::reach::Outage;
use super::Halt;
use crate::model::{JobId, Status};
use crate::store::{ReclaimOptions, Reclaimed, SweepCall, SweepKey, Swept};

/// How often a job that could not be moved is tried again.
const RETRY: Duration = Duration::from_mins(1);
/// How many jobs with problems are remembered. More than these would be a fault of everything.
const PROBLEMS_KEPT: usize = 1_000;

/// Remembers which jobs could not be moved.
#[derive(Default)]
pub(super) struct Reclaim {
    /// Who was lost by this burns no attempt.
    outage: Option<Outage>,
    /// Where the search for jobs of lost workers goes on.
    after: Option<SweepKey>,
    /// When to try them again.
    problems: HashMap<JobId, Instant>,
}

impl Reclaim {
    /// Notes that workers were declared lost, for the first time since an outage of the store.
    pub(super) fn forgive(&mut self, outage: Outage) {
        self.outage = Some(outage);
    }

    /// Runs one batch.
    pub(super) async fn run(&mut self, fence: &Fence, call: SweepCall) -> Result<Swept, Halt> {
        let now = Instant::now();
        let passed_over = self.problems.iter().filter(|(_, retry)| **retry > now);
        let skip: Vec<_> = passed_over.map(|(id, _)| *id).collect();
        let options = ReclaimOptions { outage: self.outage.map(|outage| outage.span(now)), skip };
        let call = SweepCall { after: self.after.clone(), ..call };
        let is_whole = call.after.is_none();
        let batch = fence.call("reclaim", fence.store().reclaim(call, options)).await?;
        self.after = batch.reached;
        let is_under_way = self.after.is_some() || !is_whole;
        let reclaimed = batch.jobs;
        if reclaimed.is_empty() {
            if !is_under_way {
                self.outage = None;
            }
            // Only a search from the start says that nothing is left.
            return Ok(Swept { more: is_under_way, ..Swept::default() });
        }
        let rows = self.note(&reclaimed, now);
        let mut problems = reclaimed.iter().filter_map(|job| job.problem.as_ref().map(|why| (job.id, why)));
        let problem = problems.next().map(|(id, why)| format!("job {id}: {why}"));
        Ok(Swept {
            rows,
            // Until nothing is left. With more problems than are remembered these would come round for ever.
            more: rows > 0 || self.problems.len() < PROBLEMS_KEPT,
            problems: reclaimed.len() as u64 - rows,
            problem,
            ..Swept::default()
        })
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
                forgiving = self.outage.is_some(),
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
