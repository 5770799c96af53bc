//! Events: what is told of jobs, and the feed.

use std::collections::BTreeMap;
use std::ops::Bound;

use jiff::Timestamp;
use serde_json::Value;

use super::super::{EventPage, StoreError};
use super::state::State;
use crate::model::{EventCursor, EventLevel, EventRecord, JobId, Json};

/// The longest page of events.
const PAGE_LIMIT: u32 = 10_000;

/// The events in the order in which they are told.
#[derive(Default)]
pub(super) struct Events {
    rows: BTreeMap<EventCursor, EventRecord>,
    /// The transaction that runs, which is a call here.
    xid: u64,
    id: i64,
}

impl Events {
    /// Begins a call.
    pub(super) fn begin(&mut self) {
        self.xid += 1;
    }

    /// Behind everything that has happened before this call.
    pub(super) fn horizon(&self) -> EventCursor {
        // Every call is over before the next begins, so nothing is held back.
        EventCursor { xid: self.xid, id: 0 }
    }

    /// The events by when they happened.
    pub(super) fn by_time(&self) -> impl Iterator<Item = (Timestamp, EventCursor)> {
        self.rows.iter().map(|(cursor, event)| (event.occurred_at, *cursor))
    }

    pub(super) fn remove(&mut self, cursor: EventCursor) {
        self.rows.remove(&cursor);
    }
}

impl State {
    /// Tells something that is out of the ordinary.
    pub(super) fn tell(&mut self, now: Timestamp, job: JobId, kind: &str, detail: &Value) {
        self.tell_at(EventLevel::Notable, now, job, kind, detail);
    }

    /// Tells something, if events of this level are written.
    pub(super) fn tell_at(
        &mut self,
        level: EventLevel,
        now: Timestamp,
        job_id: JobId,
        kind: &str,
        detail: &Value,
    ) {
        if level > self.settings.event_level {
            return;
        }
        self.events.id += 1;
        let cursor = EventCursor { xid: self.events.xid, id: self.events.id };
        let detail = (!detail.is_null()).then(|| detail.to_string());
        let detail = detail.and_then(|text| Json::from_store(text).ok());
        let event = EventRecord { cursor, job_id, occurred_at: now, kind: kind.to_owned(), detail };
        self.events.rows.insert(cursor, event);
    }

    pub(super) fn events_after(
        &self,
        after: Option<EventCursor>,
        limit: u32,
    ) -> Result<EventPage, StoreError> {
        if !(1..=PAGE_LIMIT).contains(&limit) {
            return Err(StoreError::invalid(format!("limit is not between 1 and {PAGE_LIMIT}")));
        }
        let horizon = self.events.horizon();
        let Some(after) = after else {
            return Ok(EventPage { events: Vec::new(), next: horizon });
        };
        if after.xid > horizon.xid {
            return Err(StoreError::invalid(format!(
                "the cursor {after} is of another store: this one's next transaction is {}; begin anew, from now on or with \
                 {} for everything that is kept",
                horizon.xid,
                EventCursor::START
            )));
        }
        let behind = self.events.rows.range((Bound::Excluded(after), Bound::Unbounded));
        let events: Vec<EventRecord> = behind.take(limit as usize).map(|(_, event)| event.clone()).collect();
        let next = match events.last() {
            Some(last) if events.len() == limit as usize => last.cursor,
            _ => horizon,
        };
        Ok(EventPage { events, next })
    }
}
