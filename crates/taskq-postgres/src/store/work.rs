//! Claims and settles.

use std::sync::Arc;

use taskq_core::model::{ClaimedJob, Epoch, JobId, Json, SettleReason, Settled, Settlement, WorkerId};
use taskq_core::store::{ClaimRequest, Claimed, StoreError};
use tokio_postgres::Row;
use uuid::Uuid;

use super::Calls;
use super::documents::of_settlements;
use crate::codec::{Columns, Interval, Jsonb, JsonbText, Time, only};

impl Calls {
    pub(super) async fn claim(self: Arc<Self>, request: ClaimRequest) -> Result<Claimed, StoreError> {
        let queues: Vec<_> = request.queues.iter().map(|wanted| wanted.queue.as_str()).collect();
        let slots: Vec<_> =
            request.queues.iter().map(|wanted| i32::try_from(wanted.slots).unwrap_or(i32::MAX)).collect();
        let lease = Interval(request.lease);
        let oversample = i32::from(request.oversample);
        let rows = self
            .claim
            .query(&self.statements.claim, &[&request.worker.0, &queues, &slots, &lease, &oversample])
            .await?;
        let jobs = rows.iter().map(claimed).collect::<Result<_, _>>()?;
        Ok(Claimed { jobs, more: false })
    }

    pub(super) async fn settle(
        self: Arc<Self>,
        worker: WorkerId,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<Settled>, StoreError> {
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let documents = of_settlements(&settlements)?;
        let rows = self.settle.query(&self.statements.settle, &[&worker.0, &documents]).await?;
        if rows.len() != settlements.len() {
            let message = format!("{} answers to {} settlements", rows.len(), settlements.len());
            return Err(StoreError::Answer { message });
        }
        rows.iter().map(settled).collect()
    }

    pub(super) async fn complete(
        self: Arc<Self>,
        worker: WorkerId,
        id: JobId,
        epoch: Epoch,
        result: Option<Json>,
    ) -> Result<Settled, StoreError> {
        let result = result.map(|json| JsonbText(json.as_str().to_owned()));
        let rows =
            self.client.query(&self.statements.complete, &[&worker.0, &id.0, &epoch.0, &result]).await?;
        settled(only(&rows)?)
    }
}

fn settled(row: &Row) -> Result<Settled, StoreError> {
    let mut columns = Columns::of(row);
    Ok(Settled {
        id: JobId(columns.read::<Uuid>()?),
        reason: columns.read_as(|word: String| {
            SettleReason::from_word(&word).ok_or_else(|| format!("unknown reason {word:?}"))
        })?,
        status: columns.read_as(|word: Option<String>| word.map(|word| word.parse()).transpose())?,
    })
}

fn claimed(row: &Row) -> Result<ClaimedJob, StoreError> {
    let mut columns = Columns::of(row);
    Ok(ClaimedJob {
        id: JobId(columns.read::<Uuid>()?),
        queue: columns.read_as(|text: String| text.try_into())?,
        actor: columns.read_as(|text: String| text.try_into())?,
        epoch: Epoch(columns.read()?),
        attempt: columns.read()?,
        max_attempts: columns.read()?,
        priority: columns.read()?,
        payload: columns.read::<Jsonb>()?.0,
        payload_version: columns.read()?,
        scheduled_at: columns.read::<Time>()?.0,
        schedule_to_close: columns.read::<Option<Time>>()?.map(|time| time.0),
        start_to_close: columns.read::<Option<Interval>>()?.map(|interval| interval.0),
        metadata: columns.read::<Option<Jsonb>>()?.map(|json| json.0),
        tags: columns.read::<Option<Vec<String>>>()?.unwrap_or_default(),
        trace_context: columns.read()?,
    })
}
