//! The leader's sweeps.

use std::sync::Arc;

use taskq_core::model::{Epoch, JobId, Status, WorkerId};
use taskq_core::store::{LeaderEpoch, Promoted, Reclaimed, StoreError, SweepsDue};
use uuid::Uuid;

use super::Calls;
use super::worker::{bound, only};
use crate::codec::{Columns, Interval};

impl Calls {
    pub(super) async fn promote(
        self: Arc<Self>,
        leader: WorkerId,
        epoch: LeaderEpoch,
        limit: u32,
    ) -> Result<Promoted, StoreError> {
        let rows = self.sweep.query(&self.statements.promote, &[&leader.0, &epoch.0, &bound(limit)]).await?;
        let mut columns = Columns::of(only(&rows)?);
        Ok(Promoted {
            jobs: columns.read_as(|count: i64| u64::try_from(count))?,
            next_due_in: columns.read::<Option<Interval>>()?.map(|interval| interval.0),
        })
    }

    pub(super) async fn sweeps_due(
        self: Arc<Self>,
        leader: WorkerId,
        epoch: LeaderEpoch,
    ) -> Result<SweepsDue, StoreError> {
        let rows = self.sweep.query(&self.statements.sweeps_due, &[&leader.0, &epoch.0]).await?;
        let mut columns = Columns::of(only(&rows)?);
        Ok(SweepsDue {
            next_due_in: columns.read::<Option<Interval>>()?.map(|interval| interval.0),
            lease_ended: columns.read()?,
            lost: columns.read()?,
            forgettable: columns.read()?,
        })
    }

    pub(super) async fn mark_lost(
        self: Arc<Self>,
        leader: WorkerId,
        epoch: LeaderEpoch,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let rows =
            self.sweep.query(&self.statements.mark_lost, &[&leader.0, &epoch.0, &bound(limit)]).await?;
        Columns::of(only(&rows)?).read_as(|count: i64| u64::try_from(count))
    }

    pub(super) async fn reclaim(
        self: Arc<Self>,
        leader: WorkerId,
        epoch: LeaderEpoch,
        limit: u32,
        forgive: bool,
        skip: Vec<JobId>,
    ) -> Result<Vec<Reclaimed>, StoreError> {
        let skip: Vec<Uuid> = skip.into_iter().map(|id| id.0).collect();
        let rows = self
            .sweep
            .query(&self.statements.reclaim, &[&leader.0, &epoch.0, &bound(limit), &forgive, &skip])
            .await?;
        rows.iter()
            .map(|row| {
                let mut columns = Columns::of(row);
                Ok(Reclaimed {
                    id: JobId(columns.read()?),
                    epoch: Epoch(columns.read()?),
                    status: columns.read_as(|word: String| word.parse::<Status>())?,
                    problem: columns.read()?,
                })
            })
            .collect()
    }

    pub(super) async fn forget_workers(
        self: Arc<Self>,
        leader: WorkerId,
        epoch: LeaderEpoch,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let rows =
            self.sweep.query(&self.statements.forget_workers, &[&leader.0, &epoch.0, &bound(limit)]).await?;
        Columns::of(only(&rows)?).read_as(|count: i64| u64::try_from(count))
    }
}
