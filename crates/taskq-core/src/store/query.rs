//! What operators ask.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::model::{
    ActorName, ErrorRecord, EventCursor, EventRecord, JobId, Json, QueueName, Status, WorkerId,
};

/// Which jobs to list. Every field narrows.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// Only this status.
    pub status: Option<Status>,
    /// Only this queue.
    pub queue: Option<QueueName>,
    /// Only this actor.
    pub actor: Option<ActorName>,
    /// Only ids below this one: the last of the page before.
    pub before: Option<JobId>,
    /// The most rows; 1 to 1,000.
    pub limit: u32,
}

/// How a job stands, for those who wait for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Ending {
    /// The job.
    pub id: JobId,
    /// Where it stands.
    pub status: Status,
    /// What its handler returned, once it has.
    pub result: Option<Json>,
    /// Its last error.
    pub error: Option<ErrorRecord>,
}

/// A page of events.
#[derive(Clone, PartialEq, Debug)]
pub struct EventPage {
    /// The events, in the order of their cursors.
    pub events: Vec<EventRecord>,
    /// Where to go on. It moves on also when there are no events.
    pub next: EventCursor,
}

/// A count that stops at a bound, so that asking stays cheap whatever is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// What was counted, at most [`Count::BOUND`].
    pub value: u64,
    /// Whether counting stopped at the bound.
    pub capped: bool,
}

impl Count {
    /// Where counting stops.
    pub const BOUND: u64 = 10_000;

    /// Makes a count of what was found, where at most `BOUND + 1` were looked at.
    pub fn of(found: u64) -> Self {
        Self { value: found.min(Self::BOUND), capped: found > Self::BOUND }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.capped { f.pad(&format!("{}+", self.value)) } else { f.pad(&self.value.to_string()) }
    }
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut object = serializer.serialize_struct("Count", 2)?;
        object.serialize_field("value", &self.value)?;
        object.serialize_field("capped", &self.capped)?;
        object.end()
    }
}

/// The order in which a queue hands out its jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueMode {
    /// One order across all lanes: priority, then time, then id.
    StrictFifo,
    /// Lanes take turns; in a lane priority, then time, then id.
    RoundRobin,
}

impl QueueMode {
    /// Returns the word used in SQL, in JSON and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StrictFifo => "strict_fifo",
            Self::RoundRobin => "round_robin",
        }
    }
}

/// One queue.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct QueueSummary {
    /// Its name.
    pub queue: QueueName,
    /// Its order.
    pub mode: QueueMode,
    /// Jobs that wait for a time.
    pub scheduled: Count,
    /// Jobs that are ready.
    pub pending: Count,
    /// Jobs that run.
    pub running: Count,
    /// How long the job at its head has been ready, in seconds.
    #[serde(rename = "oldest_pending_s", serialize_with = "as_seconds")]
    pub oldest_pending: Option<Duration>,
    /// Live workers that subscribe to it.
    pub workers: u64,
    /// Whether its jobs are held back.
    pub paused: bool,
}

/// An actor with ready jobs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ActorSummary {
    /// Its queue.
    pub queue: QueueName,
    /// Its name.
    pub actor: ActorName,
    /// Its ready jobs.
    pub pending: Count,
}

/// Whether a worker session is alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerState {
    /// Its lease runs.
    Active,
    /// Its lease has ended, or it was declared lost; what it runs is, or will be, taken from it.
    Lost,
}

/// The leader's lease.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LeaderSummary {
    /// The worker that holds it.
    pub worker: WorkerId,
    /// How many leaders there have been.
    pub epoch: i64,
    /// When it ends.
    pub expires_at: Timestamp,
    /// How long until then, by the store's clock, in seconds.
    #[serde(rename = "lease_left_s", serialize_with = "in_seconds")]
    pub lease_left: Duration,
}

/// One worker session.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct WorkerSummary {
    /// The session.
    pub worker: WorkerId,
    /// Whether it is alive.
    pub state: WorkerState,
    /// Its queues.
    pub queues: Vec<QueueName>,
    /// Its actors.
    pub actors: Vec<ActorName>,
    /// When it registered.
    pub started_at: Timestamp,
    /// When its lease ends.
    pub lease_expires_at: Timestamp,
    /// How long until then, by the store's clock, in seconds; zero once it has ended.
    #[serde(rename = "lease_left_s", serialize_with = "in_seconds")]
    pub lease_left: Duration,
    /// Jobs that it runs.
    pub running: Count,
}

/// The whole store.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Stats {
    /// How many jobs have each status.
    pub jobs: Vec<(Status, Count)>,
    /// Live workers.
    pub workers: Vec<WorkerSummary>,
    /// The worker that leads, if one does.
    pub leader: Option<WorkerId>,
    /// Ready jobs that no live worker serves, by queue and actor.
    pub unserved: Vec<ActorSummary>,
}

#[expect(clippy::ref_option, reason = "serde fixes the signature")]
pub(super) fn as_seconds<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    value.map(|duration| duration.as_secs_f64()).serialize(serializer)
}

pub(super) fn in_seconds<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_secs_f64().serialize(serializer)
}
