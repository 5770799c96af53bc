//! Worker sessions.

use std::sync::Arc;

use jiff::Timestamp;
use taskq_core::model::{Epoch, JobId, WorkerId};
use taskq_core::store::{Beat, BeatReply, Held, LeaderEpoch, Registration, StoreError};
use uuid::Uuid;

use super::Calls;
use super::documents::of_progress;
use crate::codec::{Columns, Interval, JsonbText, Time, only};

impl Calls {
    pub(super) async fn register_worker(self: Arc<Self>, session: Registration) -> Result<(), StoreError> {
        let queues: Vec<_> = session.queues.iter().map(taskq_core::model::QueueName::as_str).collect();
        let actors: Vec<_> = session.actors.iter().map(taskq_core::model::ActorName::as_str).collect();
        let info = session.info.as_ref().map(|info| JsonbText(info.as_str().to_owned()));
        let lease = Interval(session.lease);
        self.control
            .query(&self.statements.register, &[&session.worker.0, &queues, &actors, &lease, &info])
            .await
            .map(drop)
    }

    pub(super) async fn heartbeat(self: Arc<Self>, beat: Beat) -> Result<BeatReply, StoreError> {
        let progress = if beat.progress.is_empty() { None } else { Some(of_progress(&beat.progress)?) };
        let lease = Interval(beat.lease);
        let leadership = beat.leadership.map(Interval);
        let rows = self
            .control
            .query(&self.statements.heartbeat, &[&beat.worker.0, &lease, &progress, &leadership])
            .await?;
        let mut reply = BeatReply::default();
        for row in &rows {
            let mut columns = Columns::of(row);
            let kind: String = columns.read()?;
            let job: Option<Uuid> = columns.read()?;
            let epoch: Option<i64> = columns.read()?;
            match (kind.as_str(), job, epoch) {
                ("leader", _, Some(epoch)) => reply.leadership = Some(LeaderEpoch(epoch)),
                ("cancel", Some(job), Some(epoch)) => reply.cancel.push((JobId(job), Epoch(epoch))),
                ("overdue", Some(job), Some(epoch)) => reply.overdue.push((JobId(job), Epoch(epoch))),
                ("leader" | "cancel" | "overdue", ..) => {
                    return Err(StoreError::Answer { message: format!("an incomplete {kind:?} in a beat") });
                }
                // A newer schema may say more than this program understands.
                _ => tracing::warn!(kind, "a beat was answered with something unknown"),
            }
        }
        Ok(reply)
    }

    pub(super) async fn held(
        self: Arc<Self>,
        worker: WorkerId,
        since: Option<Timestamp>,
    ) -> Result<Vec<Held>, StoreError> {
        let since = since.map(Time);
        let rows = self.control.query(&self.statements.held, &[&worker.0, &since]).await?;
        rows.iter()
            .map(|row| {
                let mut columns = Columns::of(row);
                Ok(Held {
                    id: JobId(columns.read::<Uuid>()?),
                    epoch: Epoch(columns.read()?),
                    started_at: columns.read::<Time>()?.0,
                })
            })
            .collect()
    }

    pub(super) async fn release_worker(self: Arc<Self>, worker: WorkerId) -> Result<u64, StoreError> {
        let rows = self.control.query(&self.statements.release, &[&worker.0]).await?;
        Columns::of(only(&rows)?).read_as(|count: i64| u64::try_from(count))
    }
}

/// A bound as SQL takes it; one that does not fit is refused there.
pub(super) fn bound(limit: u32) -> i32 {
    i32::try_from(limit).unwrap_or(i32::MAX)
}
