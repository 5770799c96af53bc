//! `cancel_matching` and `retry_matching`: operators' verbs over a filter, one bounded batch a call.

use std::ops::Bound;
use std::time::Duration;

use jiff::Timestamp;

use super::super::{
    CancelOutcome, Cancelled, CancelledBatch, JobMatch, PruneCall, PruneMode, PrunedBatch, Retried,
    RetriedBatch, RetryOutcome, StoreError,
};
use super::state::State;
use super::validate;
use crate::model::{JobId, JobRecord};

/// How many jobs are looked at for each that a batch may hold.
const LOOKED_AT: usize = 10;

/// The jobs of one batch, and where the next one goes on.
struct Batch {
    ids: Vec<JobId>,
    scanned_to: Option<JobId>,
}

impl State {
    pub(super) fn cancel_matching(
        &mut self,
        now: Timestamp,
        jobs: &JobMatch,
        limit: u32,
        after: Option<JobId>,
        reason: Option<&str>,
    ) -> Result<CancelledBatch, StoreError> {
        let batch = self.matching(jobs, limit, after)?;
        let cancelled = self.cancel_each(now, &batch.ids, reason);
        let count = |outcome| {
            let those = cancelled.iter().filter(|cancelled: &&Cancelled| cancelled.outcome == outcome);
            those.count() as u64
        };
        Ok(CancelledBatch {
            cancelled: count(CancelOutcome::Cancelled),
            requested: count(CancelOutcome::Requested),
            scanned_to: batch.scanned_to,
        })
    }

    pub(super) fn retry_matching(
        &mut self,
        now: Timestamp,
        jobs: &JobMatch,
        limit: u32,
        after: Option<JobId>,
    ) -> Result<RetriedBatch, StoreError> {
        let batch = self.matching(jobs, limit, after)?;
        let retried = self.retry_each(now, &batch.ids);
        let those = retried.iter().filter(|retried: &&Retried| retried.outcome == RetryOutcome::Retried);
        Ok(RetriedBatch { retried: those.count() as u64, scanned_to: batch.scanned_to })
    }

    pub(super) fn prune(&mut self, now: Timestamp, call: &PruneCall) -> Result<PrunedBatch, StoreError> {
        validate::batch(call.limit)?;
        validate::prune(call)?;
        let (most, horizon) = (call.limit as usize, earlier(now, call.older_than));
        let behind = (call.after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let mut both: Vec<&JobRecord> =
            self.jobs.range(behind).chain(self.archive.range(behind)).map(|(_, job)| job).collect();
        both.sort_by_key(|job| job.id);
        let (mut found, mut scanned_to) = (Vec::new(), None);
        for (nth, job) in both.into_iter().enumerate() {
            if job.finished_at.is_some_and(|at| at <= horizon) && matches(&call.jobs, job) {
                found.push((job.id, job.archived_at.is_some()));
            }
            if found.len() == most || nth + 1 == most * LOOKED_AT {
                scanned_to = Some(job.id);
                break;
            }
        }
        if call.mode == PruneMode::Delete {
            for (id, _) in &found {
                self.remove(*id);
            }
        }
        let archived = found.iter().filter(|(_, archived)| *archived).count() as u64;
        Ok(PrunedBatch { pruned: found.len() as u64, archived, scanned_to })
    }

    /// Finds the first jobs behind `after` that match.
    fn matching(&self, jobs: &JobMatch, limit: u32, after: Option<JobId>) -> Result<Batch, StoreError> {
        validate::batch(limit)?;
        let most = limit as usize;
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut batch = Batch { ids: Vec::new(), scanned_to: None };
        for (nth, (id, job)) in self.jobs.range((behind, Bound::Unbounded)).enumerate() {
            if matches(jobs, job) {
                batch.ids.push(*id);
            }
            if batch.ids.len() == most || nth + 1 == most * LOOKED_AT {
                batch.scanned_to = Some(*id);
                break;
            }
        }
        Ok(batch)
    }
}

/// A time a while before; the first representable one where that is before it.
fn earlier(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_sub(by).unwrap_or(Timestamp::MIN)
}

fn matches(jobs: &JobMatch, job: &JobRecord) -> bool {
    (jobs.statuses.is_empty() || jobs.statuses.contains(&job.status))
        && jobs.queue.as_ref().is_none_or(|queue| job.queue == *queue)
        && jobs.actor.as_ref().is_none_or(|actor| job.actor == *actor)
        && jobs.tag.as_ref().is_none_or(|tag| job.tags.contains(tag))
}
