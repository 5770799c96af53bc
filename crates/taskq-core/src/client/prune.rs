//! Deleting jobs that ended long ago, and what is particular to an actor.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{Client, OperateError};
use crate::model::ActorName;
use crate::store::{ActorChanges, JobMatch, PruneCall, PruneMode, PrunedBatch, StoreError};

/// How many jobs one batch deletes at most: short enough that nobody waits for its locks.
const BATCH: u32 = 1_000;

impl Client {
    /// Prepares to delete jobs for good that ended at least so long ago, with their attempts, whether they are archived or
    /// not: await what this returns.
    ///
    /// Nobody has to do so regularly: the leader archives finished jobs and drops old months of the archive by itself. An
    /// idempotency key outlives its job; it answers that there was one.
    pub fn prune(&self, older_than: Duration) -> Prune {
        Prune {
            client: self.clone(),
            jobs: JobMatch::default(),
            older_than,
            mode: PruneMode::Delete,
            progress: None,
        }
    }

    /// Sets what is particular to an actor, which need not have jobs yet. Returns whether anything was another before.
    ///
    /// # Errors
    /// [`OperateError`] when the name is not a name, a value is out of bounds, or the store cannot be reached. It can be
    /// repeated.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether it is done; it can be repeated.
    pub async fn set_actor(&self, actor: &str, changes: ActorChanges) -> Result<bool, OperateError> {
        Ok(self.store().set_actor(ActorName::new(actor)?, changes).await?)
    }
}

/// What a prune has done, or would do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PruneTotals {
    /// The jobs.
    pub pruned: u64,
    /// How many of them were archived.
    pub archived: u64,
}

/// A deletion of jobs that ended long ago: await it. It goes through the jobs in batches, each committed by itself.
///
/// Fails with a [`StoreError`] when the store cannot be reached, or a status was named that no ended job has; what was
/// deleted by then stays so, and it can be repeated.
///
/// # Cancel safety
/// Dropping the future stops it after the batch in flight.
#[must_use = "jobs are deleted only when this is awaited"]
pub struct Prune {
    client: Client,
    jobs: JobMatch,
    older_than: Duration,
    mode: PruneMode,
    progress: Option<Box<dyn FnMut(PruneTotals) + Send>>,
}

impl Prune {
    /// Deletes only jobs that match.
    pub fn matching(mut self, jobs: JobMatch) -> Self {
        self.jobs = jobs;
        self
    }

    /// Counts what would be deleted, and changes nothing.
    pub fn dry_run(mut self) -> Self {
        self.mode = PruneMode::Count;
        self
    }

    /// Tells how far it is, after each batch.
    pub fn on_progress(mut self, progress: impl FnMut(PruneTotals) + Send + 'static) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }
}

impl IntoFuture for Prune {
    type Output = Result<PruneTotals, StoreError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            let (mut totals, mut after) = (PruneTotals::default(), None);
            loop {
                let call = PruneCall {
                    jobs: self.jobs.clone(),
                    older_than: self.older_than,
                    limit: BATCH,
                    after,
                    mode: self.mode,
                };
                let PrunedBatch { pruned, archived, scanned_to } = self.client.store().prune(call).await?;
                totals.pruned += pruned;
                totals.archived += archived;
                if let Some(progress) = &mut self.progress {
                    progress(totals);
                }
                if scanned_to.is_none() {
                    return Ok(totals);
                }
                after = scanned_to;
            }
        })
    }
}

impl fmt::Debug for Prune {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prune")
            .field("jobs", &self.jobs)
            .field("older_than", &self.older_than)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}
