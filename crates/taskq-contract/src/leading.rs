//! The leader as behaviours use it.

use taskq_core::model::JobId;
use taskq_core::store::{LeaderEpoch, Reclaimed, StoreError, SweepsDue};

use crate::scene::Scene;
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

    /// Ends the session, so that another worker can lead.
    pub(crate) async fn step_down(&self) {
        self.worker.release().await;
    }

    pub(crate) async fn due(&self) -> SweepsDue {
        self.scene.store.sweeps_due(self.worker.id, self.epoch).await.expect("it leads")
    }

    pub(crate) async fn try_mark_lost(&self, limit: u32) -> Result<u64, StoreError> {
        self.scene.store.mark_lost(self.worker.id, self.epoch, limit).await
    }

    /// Declares every worker lost whose lease has ended; returns how many.
    pub(crate) async fn mark_lost(&self) -> u64 {
        self.try_mark_lost(1_000).await.expect("it leads")
    }

    pub(crate) async fn try_reclaim(&self, limit: u32, skip: &[JobId]) -> Result<Vec<Reclaimed>, StoreError> {
        self.scene.store.reclaim(self.worker.id, self.epoch, limit, false, skip.to_vec()).await
    }

    /// Takes at most so many jobs from lost workers. They come by id.
    pub(crate) async fn reclaim_some(&self, limit: u32, skip: &[JobId]) -> Vec<Reclaimed> {
        by_id(self.try_reclaim(limit, skip).await.expect("it leads"))
    }

    /// Takes every job from lost workers. They come by id.
    pub(crate) async fn reclaim(&self) -> Vec<Reclaimed> {
        self.reclaim_some(1_000, &[]).await
    }

    /// Takes every job from lost workers as after an outage of the store. They come by id.
    pub(crate) async fn forgive(&self) -> Vec<Reclaimed> {
        let reclaimed = self.scene.store.reclaim(self.worker.id, self.epoch, 1_000, true, Vec::new()).await;
        by_id(reclaimed.expect("it leads"))
    }

    pub(crate) async fn try_forget(&self, limit: u32) -> Result<u64, StoreError> {
        self.scene.store.forget_workers(self.worker.id, self.epoch, limit).await
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
