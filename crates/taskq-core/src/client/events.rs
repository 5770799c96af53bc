//! What happens to jobs, as a stream that can be taken up again where it was left.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use super::Client;
use crate::model::{EventCursor, EventRecord};
use crate::store::StoreError;

/// How many events one call reads.
const PAGE: u32 = 1_000;
/// The pause after an event, and after a while without one.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What happens to jobs, in an order in which nothing can appear behind what was read.
///
/// An event is told once every transaction that began before it is over: one that is left open for long holds the stream
/// back. Which events there are at all says the setting [`EventLevel`](crate::model::EventLevel), and how long they are
/// kept the setting `event_retention_period`: a reader that comes back later than that misses some.
pub struct Events {
    client: Client,
    /// Behind what was returned; `None` until the first call has said where now is.
    cursor: Option<EventCursor>,
    /// Where the next call goes on.
    next: Option<EventCursor>,
    read: VecDeque<EventRecord>,
    pause: Duration,
}

impl Client {
    /// Reads what happens to jobs from now on, or [from](Events::from) another place.
    pub fn events(&self) -> Events {
        Events { client: self.clone(), cursor: None, next: None, read: VecDeque::new(), pause: PAUSE_MIN }
    }
}

impl Events {
    /// Begins behind a place: what [`cursor`](Self::cursor) said, or [`EventCursor::START`] for everything that is kept.
    #[must_use]
    pub fn from(self, cursor: EventCursor) -> Self {
        Self { cursor: Some(cursor), next: Some(cursor), read: VecDeque::new(), ..self }
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be asked. Nothing is skipped: the next call tries again.
    ///
    /// # Cancel safety
    /// Cancel safe: no event is lost.
    pub async fn next(&mut self) -> Result<EventRecord, StoreError> {
        loop {
            if let Some(event) = self.try_next().await? {
                return Ok(event);
            }
            tokio::time::sleep(self.pause).await;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
    }

    /// Returns the next event; `None` when everything has been read that can be told by now.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    ///
    /// # Cancel safety
    /// Cancel safe: no event is lost.
    pub async fn try_next(&mut self) -> Result<Option<EventRecord>, StoreError> {
        if self.read.is_empty() {
            let page = self.client.store().events(self.next, PAGE).await?;
            self.next = Some(page.next);
            if page.events.is_empty() {
                // What was passed over is behind the reader for good.
                self.cursor = self.next;
            }
            self.read = page.events.into();
        }
        let event = self.read.pop_front();
        if let Some(event) = &event {
            self.cursor = Some(event.cursor);
            self.pause = PAUSE_MIN;
        }
        Ok(event)
    }

    /// Returns the place behind the last event that was returned, to go on [from](Self::from) later; `None` before the
    /// first call of a stream that began with now.
    pub fn cursor(&self) -> Option<EventCursor> {
        self.cursor
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}
