//! What operators do to jobs, queues and actors.

use std::sync::Arc;

use serde::Serialize;
use taskq_core::model::{ActorName, JobId, QueueName, Status};
use taskq_core::store::{
    CancelOutcome, Cancelled, CancelledBatch, JobMatch, LanePart, PruneCall, PruneMode, PrunedBatch,
    QueueMode, QueueSet, Retried, RetriedBatch, RetryOutcome, StoreError,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::Calls;
use super::worker::bound;
use crate::codec::{Columns, Interval, JsonbText, only};

impl Calls {
    pub(super) async fn cancel(
        self: Arc<Self>,
        ids: Vec<JobId>,
        reason: Option<String>,
    ) -> Result<Vec<Cancelled>, StoreError> {
        let ids: Vec<Uuid> = ids.into_iter().map(|id| id.0).collect();
        let rows = self.client.query(&self.statements.cancel, &[&ids, &printable(reason)]).await?;
        rows.iter()
            .map(|row| {
                let (id, outcome, status) = answer(row, CancelOutcome::from_word)?;
                Ok(Cancelled { id, outcome, status })
            })
            .collect()
    }

    pub(super) async fn cancel_matching(
        self: Arc<Self>,
        jobs: JobMatch,
        limit: u32,
        after: Option<JobId>,
        reason: Option<String>,
    ) -> Result<CancelledBatch, StoreError> {
        let (filter, after) = (filter(&jobs)?, after.map(|id| id.0));
        let rows = self
            .client
            .query(&self.statements.cancel_matching, &[&filter, &bound(limit), &after, &printable(reason)])
            .await?;
        let mut columns = Columns::of(only(&rows)?);
        Ok(CancelledBatch {
            cancelled: columns.read_as(|count: i64| u64::try_from(count))?,
            requested: columns.read_as(|count: i64| u64::try_from(count))?,
            scanned_to: columns.read::<Option<Uuid>>()?.map(JobId),
        })
    }

    pub(super) async fn retry(self: Arc<Self>, ids: Vec<JobId>) -> Result<Vec<Retried>, StoreError> {
        let ids: Vec<Uuid> = ids.into_iter().map(|id| id.0).collect();
        let rows = self.client.query(&self.statements.retry, &[&ids]).await?;
        rows.iter()
            .map(|row| {
                let (id, outcome, status) = answer(row, RetryOutcome::from_word)?;
                Ok(Retried { id, outcome, status })
            })
            .collect()
    }

    pub(super) async fn retry_matching(
        self: Arc<Self>,
        jobs: JobMatch,
        limit: u32,
        after: Option<JobId>,
    ) -> Result<RetriedBatch, StoreError> {
        let (filter, after) = (filter(&jobs)?, after.map(|id| id.0));
        let rows =
            self.client.query(&self.statements.retry_matching, &[&filter, &bound(limit), &after]).await?;
        let mut columns = Columns::of(only(&rows)?);
        Ok(RetriedBatch {
            retried: columns.read_as(|count: i64| u64::try_from(count))?,
            scanned_to: columns.read::<Option<Uuid>>()?.map(JobId),
        })
    }

    pub(super) async fn prune(self: Arc<Self>, call: PruneCall) -> Result<PrunedBatch, StoreError> {
        let filter = filter(&call.jobs)?;
        let (older_than, after) = (Interval(call.older_than), call.after.map(|id| id.0));
        let dry_run = call.mode == PruneMode::Count;
        let rows = self
            .client
            .query(&self.statements.prune, &[&filter, &older_than, &bound(call.limit), &after, &dry_run])
            .await?;
        let mut columns = Columns::of(only(&rows)?);
        Ok(PrunedBatch {
            pruned: columns.read_as(|count: i64| u64::try_from(count))?,
            archived: columns.read_as(|count: i64| u64::try_from(count))?,
            scanned_to: columns.read::<Option<Uuid>>()?.map(JobId),
        })
    }

    pub(super) async fn pause(self: Arc<Self>, part: LanePart) -> Result<bool, StoreError> {
        let (kind, name) = names(&part);
        let rows = self.client.query(&self.statements.pause, &[&kind, &name]).await?;
        Columns::of(only(&rows)?).read()
    }

    pub(super) async fn resume(self: Arc<Self>, part: LanePart) -> Result<bool, StoreError> {
        let (kind, name) = names(&part);
        let rows = self.client.query(&self.statements.resume, &[&kind, &name]).await?;
        Columns::of(only(&rows)?).read()
    }

    pub(super) async fn set_queue(
        self: Arc<Self>,
        queue: QueueName,
        mode: QueueMode,
        limit: u32,
    ) -> Result<QueueSet, StoreError> {
        let rows = self
            .client
            .query(&self.statements.set_queue, &[&queue.as_str(), &mode.as_str(), &bound(limit)])
            .await?;
        let mut columns = Columns::of(only(&rows)?);
        Ok(QueueSet {
            changed: columns.read()?,
            merged: columns.read_as(|count: i64| u64::try_from(count))?,
            more: columns.read()?,
        })
    }
}

fn answer<O>(
    row: &Row,
    from_word: impl FnOnce(&str) -> Option<O>,
) -> Result<(JobId, O, Option<Status>), StoreError> {
    let mut columns = Columns::of(row);
    Ok((
        JobId(columns.read()?),
        columns
            .read_as(|word: String| from_word(&word).ok_or_else(|| format!("unknown outcome {word:?}")))?,
        columns.read_as(|word: Option<String>| word.map(|word| word.parse()).transpose())?,
    ))
}

/// A reason is told, not matched: what PostgreSQL cannot store is replaced.
pub(crate) fn printable(reason: Option<String>) -> Option<String> {
    reason.map(|text| if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text })
}

#[derive(Serialize)]
struct FilterDocument<'a> {
    #[serde(skip_serializing_if = "<[Status]>::is_empty")]
    status: &'a [Status],
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'a QueueName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<&'a ActorName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<&'a str>,
}

fn filter(jobs: &JobMatch) -> Result<JsonbText, StoreError> {
    let document = FilterDocument {
        status: &jobs.statuses,
        queue: jobs.queue.as_ref(),
        actor: jobs.actor.as_ref(),
        tag: jobs.tag.as_deref(),
    };
    if jobs.tag.as_ref().is_some_and(|tag| tag.contains('\0')) {
        return Err(StoreError::invalid("the tag contains a control character"));
    }
    let text = serde_json::to_string(&document);
    text.map(JsonbText).map_err(|error| StoreError::invalid(error.to_string()))
}

fn names(part: &LanePart) -> (&'static str, &str) {
    match part {
        LanePart::Queue(queue) => ("queue", queue.as_str()),
        LanePart::Actor(actor) => ("actor", actor.as_str()),
    }
}
