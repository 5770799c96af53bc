//! One axis at a time: a claim is measured, rows are added along the axis, and it is measured again.

use super::ground::{Columns, Ground, LANES, Mode, OVERSAMPLE, WANT};
use super::oracle::Meter;

/// Something of which there may be much, and which must not matter.
pub(crate) struct Axis {
    /// How many ready jobs there are before.
    pub(crate) ready: usize,
    /// How many rows are added.
    pub(crate) more: usize,
    /// What is different about them.
    pub(crate) columns: Columns,
    /// More that is added, as SQL.
    pub(crate) beside: &'static str,
    /// Takes the bound away, as SQL.
    pub(crate) break_it: &'static str,
}

impl Axis {
    /// The cost of a claim stays what it was, and would not if the bound were taken away.
    pub(crate) async fn test(&self, mode: Mode) {
        let ground = Ground::new(mode, LANES).await;
        assert_eq!(self.objections(&ground).await, [""; 0]);
        ground.clear().await;
        ground.scene.run(self.break_it).await;
        let objections = self.objections(&ground).await;
        assert_ne!(objections, [""; 0], "nobody notices that the bound is taken away");
    }

    async fn objections(&self, ground: &Ground) -> Vec<String> {
        let mut meter = Meter::open(ground).await;
        ground.early_plans(&mut meter).await;
        ground.add(self.ready, &[]).await;
        let before = meter.cost(ground.worker, WANT, OVERSAMPLE).await;
        ground.add(self.more, self.columns).await;
        ground.scene.run(self.beside).await;
        let after = meter.cost(ground.worker, WANT, OVERSAMPLE).await;
        ground.objections_beside(&after, &before)
    }
}

/// The index of ready jobs with jobs of every status in it: a claim goes over whatever is better than its jobs.
pub(crate) const EVERY_STATUS: &str = "
    DROP INDEX taskq.jobs_ready_idx;
    CREATE INDEX jobs_ready_idx ON taskq.jobs (queue, actor, cohort, priority DESC, scheduled_at, id)";
/// Without the actor: a claim goes over whatever is better and of others.
pub(crate) const EVERY_ACTOR: &str = "
    DROP INDEX taskq.jobs_ready_idx;
    CREATE INDEX jobs_ready_idx ON taskq.jobs (queue, cohort, priority DESC, scheduled_at, id) WHERE status = 'pending'";
/// Without an order in the lanes: a claim sorts them.
pub(crate) const NO_ORDER: &str = "
    DROP INDEX taskq.jobs_ready_idx;
    CREATE INDEX jobs_ready_idx ON taskq.jobs (queue, actor, cohort) WHERE status = 'pending'";
