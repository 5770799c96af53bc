//! The leader as behaviours use it.

use std::time::Duration;

use taskq_core::model::JobId;
use taskq_core::store::{
    LeaderEpoch, OutageSpan, ReclaimOptions, Reclaimed, StoreError, Sweep, SweepCall, SweepDue, SweepProbe,
    Swept,
};

use crate::scene::{DAY, Scene};
use crate::worker::Worker;

/// A worker session that leads.
pub(crate) struct Leading<'s> {
    scene: &'s Scene<'s>,
    pub(crate) worker: Worker<'s>,
    pub(crate) epoch: LeaderEpoch,
}

impl<'s> Leading<'s> {
    /// Registers a worker and lets it lead, which nobody else may do then.
    pub(crate) async fn begin(scene: &'s Scene<'s>) -> Self {
        let worker = scene.worker().await;
        let epoch = worker.lead().await.expect("nobody else leads");
        Self { scene, worker, epoch }
    }

    pub(crate) fn scene(&self) -> &'s Scene<'s> {
        self.scene
    }

    /// Ends the session, so that another worker can lead.
    pub(crate) async fn step_down(&self) {
        self.worker.release().await;
    }

    /// Asks about every sweep, from the start.
    pub(crate) async fn due(&self) -> Vec<SweepDue> {
        self.ask(Sweep::ALL.map(SweepProbe::new).to_vec()).await
    }

    pub(crate) async fn ask(&self, probes: Vec<SweepProbe>) -> Vec<SweepDue> {
        let answers = self.scene.store.sweeps_due(self.worker.id, self.epoch, probes, None).await;
        answers.expect("it leads")
    }

    /// Asks about one sweep, from the start.
    pub(crate) async fn due_of(&self, sweep: Sweep) -> SweepDue {
        self.ask(vec![SweepProbe::new(sweep)]).await.remove(0)
    }

    /// Lists the sweeps that have something to do now, but for the expiry of the archive: a store may have to make room there
    /// ahead.
    pub(crate) async fn due_now(&self) -> Vec<Sweep> {
        self.due()
            .await
            .iter()
            .filter(|due| due.is_now() && due.sweep != Sweep::ArchiveExpiry)
            .map(|due| due.sweep)
            .collect()
    }

    /// A batch of at most so many rows.
    pub(crate) fn call(&self, limit: u32) -> SweepCall {
        SweepCall::new(self.worker.id, self.epoch, limit)
    }

    pub(crate) async fn try_sweep(&self, sweep: Sweep, limit: u32) -> Result<Swept, StoreError> {
        self.scene.store.sweep(sweep, self.call(limit)).await
    }

    /// Runs one large batch of a sweep.
    pub(crate) async fn sweep(&self, sweep: Sweep) -> Swept {
        self.try_sweep(sweep, 1_000).await.expect("it leads")
    }

    pub(crate) async fn try_mark_lost(&self, limit: u32) -> Result<u64, StoreError> {
        self.try_sweep(Sweep::MarkLost, limit).await.map(|swept| swept.rows)
    }

    /// Declares every worker lost whose lease has ended; returns how many.
    pub(crate) async fn mark_lost(&self) -> u64 {
        self.try_mark_lost(1_000).await.expect("it leads")
    }

    pub(crate) async fn try_reclaim(&self, limit: u32, skip: &[JobId]) -> Result<Vec<Reclaimed>, StoreError> {
        self.reclaim_with(limit, ReclaimOptions { outage: None, skip: skip.to_vec() }).await
    }

    /// Takes at most so many jobs, in as many calls as that needs.
    async fn reclaim_with(&self, limit: u32, options: ReclaimOptions) -> Result<Vec<Reclaimed>, StoreError> {
        let mut call = self.call(limit);
        let mut reclaimed = Vec::new();
        loop {
            let batch = self.scene.store.reclaim(call.clone(), options.clone()).await?;
            call.limit = call.limit.saturating_sub(batch.jobs.len().try_into().unwrap_or(u32::MAX));
            reclaimed.extend(batch.jobs);
            if batch.reached.is_none() || call.limit == 0 {
                return Ok(reclaimed);
            }
            call.after = batch.reached;
        }
    }

    /// Takes at most so many jobs from lost workers. They come by id.
    pub(crate) async fn reclaim_some(&self, limit: u32, skip: &[JobId]) -> Vec<Reclaimed> {
        by_id(self.try_reclaim(limit, skip).await.expect("it leads"))
    }

    /// Takes every job from lost workers. They come by id.
    pub(crate) async fn reclaim(&self) -> Vec<Reclaimed> {
        self.reclaim_some(1_000, &[]).await
    }

    /// Takes every job from lost workers, after an outage of the store in which all of them were lost. They come by id.
    pub(crate) async fn forgive(&self) -> Vec<Reclaimed> {
        self.forgive_since(OutageSpan { began: 10 * DAY, ended: Duration::ZERO }).await
    }

    /// Takes every job from lost workers, after an outage of the store. They come by id.
    pub(crate) async fn forgive_since(&self, outage: OutageSpan) -> Vec<Reclaimed> {
        let options = ReclaimOptions { outage: Some(outage), skip: Vec::new() };
        by_id(self.reclaim_with(1_000, options).await.expect("it leads"))
    }

    pub(crate) async fn try_forget(&self, limit: u32) -> Result<u64, StoreError> {
        self.try_sweep(Sweep::Workers, limit).await.map(|swept| swept.rows)
    }

    /// Deletes every worker that was lost long ago; returns how many.
    pub(crate) async fn forget(&self) -> u64 {
        self.try_forget(1_000).await.expect("it leads")
    }
}

fn by_id(mut reclaimed: Vec<Reclaimed>) -> Vec<Reclaimed> {
    reclaimed.sort_by_key(|reclaimed| reclaimed.id);
    reclaimed
}
