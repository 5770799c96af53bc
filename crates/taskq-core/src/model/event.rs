//! What is told of jobs.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{JobId, Json};

/// Something that happened to a job. Which events are written says the setting [`EventLevel`].
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct EventRecord {
    /// Its place among all events: to go on behind it later.
    pub cursor: EventCursor,
    /// The job.
    pub job_id: JobId,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// What happened: `enqueued`, `claimed`, `succeeded`, `failed`, `retried`, `snoozed`, `released`, `cancelled`,
    /// `cancel_requested`, `abandoned`, `expired`, `reclaimed`, `crashed`, `retried_by_operator`. Later versions may know
    /// more.
    pub kind: String,
    /// What else there is to say, as a JSON object.
    pub detail: Option<Json>,
}

/// A place in the feed of events: behind every event that was read up to there, and before every other one.
///
/// As text, as in JSON and on the command line, it is two numbers with a hyphen between them. It belongs to one
/// database: after a dump was restored elsewhere it means nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventCursor {
    /// The transaction that wrote the event.
    pub xid: u64,
    /// The event.
    pub id: i64,
}

impl EventCursor {
    /// Before every event.
    pub const START: Self = Self { xid: 0, id: 0 };
}

impl fmt::Display for EventCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.xid, self.id)
    }
}

/// A text is not a cursor.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is not a cursor, two numbers with a hyphen between them")]
pub struct InvalidEventCursor(String);

impl FromStr for EventCursor {
    type Err = InvalidEventCursor;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (xid, id) = text.split_once('-').filter(|_| !text.contains('+'))?;
            Some(Self { xid: xid.parse().ok()?, id: id.parse().ok().filter(|id| *id >= 0)? })
        };
        parse().ok_or_else(|| InvalidEventCursor(text.chars().take(100).collect()))
    }
}

impl Serialize for EventCursor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Which events are written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventLevel {
    /// None.
    Off,
    /// What is out of the ordinary: retries, snoozes, crashes, reclaims, cancellations, deadlines, what operators do.
    #[default]
    Notable,
    /// That, and every other end of a job: one row a job. What a hook of ends needs.
    Ends,
    /// Every transition, about three rows a job.
    All,
}

impl EventLevel {
    /// Returns the word that names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Notable => "notable",
            Self::Ends => "ends",
            Self::All => "all",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text_and_nothing_else_is_one() {
        let cursor = EventCursor { xid: u64::MAX, id: i64::MAX };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        assert_eq!("0-0".parse(), Ok(EventCursor::START));
        for text in ["", "1", "1-", "-1", "1--1", "+1-1", "1-+1", "1-1-1", "x-1", "18446744073709551616-1"] {
            assert!(text.parse::<EventCursor>().is_err(), "{text:?}");
        }
    }
}
