//! The feed of events.

use std::sync::Arc;

use taskq_core::model::{EventCursor, EventRecord, JobId};
use taskq_core::store::{EventPage, HookHold, StoreError};
use tokio_postgres::Row;

use super::Calls;
use crate::codec::{Columns, Interval, Jsonb, Time};

/// The most events that one call lists.
const PAGE_LIMIT: u32 = 10_000;

impl Calls {
    pub(super) async fn events(
        self: Arc<Self>,
        after: Option<EventCursor>,
        limit: u32,
    ) -> Result<EventPage, StoreError> {
        if !(1..=PAGE_LIMIT).contains(&limit) {
            return Err(StoreError::invalid(format!("limit {limit} is not between 1 and {PAGE_LIMIT}")));
        }
        // PostgreSQL has no type for it that a driver knows.
        let (xid, id) = (after.map(|cursor| cursor.xid.to_string()), after.map(|cursor| cursor.id));
        let most = i64::from(limit);
        let rows = self.client.query(&self.statements.events, &[&xid, &id, &most]).await?;
        let mut horizon = None;
        let mut events = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut columns = Columns::of(row);
            horizon = Some(EventCursor { xid: transaction(&mut columns)?, id: 0 });
            events.extend(event(row, &mut columns)?);
        }
        let horizon =
            horizon.ok_or_else(|| StoreError::Answer { message: "no horizon of events".to_owned() })?;
        let next = match events.last() {
            Some(last) if events.len() == limit as usize => last.cursor,
            _ => after.map_or(horizon, |after| after.max(horizon)),
        };
        Ok(EventPage { events, next })
    }

    pub(super) async fn hold_hook(
        self: Arc<Self>,
        hold: HookHold,
    ) -> Result<Option<EventCursor>, StoreError> {
        let lease = Interval(hold.lease);
        let (xid, id) =
            (hold.reached.map(|reached| reached.xid.to_string()), hold.reached.map(|reached| reached.id));
        let hook = hold.hook.as_str();
        let rows =
            self.client.query(&self.statements.hold_hook, &[&hook, &hold.holder, &lease, &xid, &id]).await?;
        let place = |row: &Row| {
            let mut columns = Columns::of(row);
            Ok(EventCursor { xid: transaction(&mut columns)?, id: columns.read()? })
        };
        rows.first().map(place).transpose()
    }
}

/// Reads an event; `None` in the row that stands for none.
fn event(row: &Row, columns: &mut Columns<'_>) -> Result<Option<EventRecord>, StoreError> {
    if row.try_get::<_, Option<i64>>("id").ok().flatten().is_none() {
        return Ok(None);
    }
    let xid = transaction(columns)?;
    Ok(Some(EventRecord {
        cursor: EventCursor { xid, id: columns.read()? },
        job_id: JobId(columns.read()?),
        occurred_at: columns.read::<Time>()?.0,
        kind: columns.read()?,
        detail: columns.read::<Option<Jsonb>>()?.map(|json| json.0),
    }))
}

fn transaction(columns: &mut Columns<'_>) -> Result<u64, StoreError> {
    columns.read_as(|text: String| text.parse::<u64>())
}
