//! What is set for the whole store and read live.

use std::time::Duration;

use serde::Serialize;

use crate::model::{EventLevel, Json};

/// How long events are kept unless something else is set.
pub const DEFAULT_EVENT_RETENTION_PERIOD: Duration = Duration::from_hours(7 * 24);
/// How many events a batch deletes unless something else is set.
pub const DEFAULT_EVENT_RETENTION_BATCH_SIZE: u32 = 10_000;

/// How long a job that has succeeded or was cancelled stays among the others unless something else is set.
pub const DEFAULT_HOT_PERIOD: Duration = Duration::from_hours(1);
/// How long a job that failed, crashed or was abandoned stays among the others unless something else is set.
pub const DEFAULT_FAILED_HOT_PERIOD: Duration = Duration::from_hours(24);
/// The shortest hot period. An enqueue that is repeated within it finds its job among the others.
pub const MIN_HOT_PERIOD: Duration = Duration::from_mins(1);
/// How long the archive keeps a month after it is over unless something else is set.
pub const DEFAULT_ARCHIVE_RETENTION_PERIOD: Duration = Duration::from_hours(365 * 24);

/// A setting of the whole store. It takes effect with the next call that reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting {
    /// Which events are written. Default [`EventLevel::Notable`].
    EventLevel(EventLevel),
    /// How long events are kept, at most 36,600 days; zero is for ever. Default 7 days.
    EventRetentionPeriod(Duration),
    /// How many events a batch deletes, 1 to 100,000. Default 10,000.
    EventRetentionBatchSize(u32),
    /// How long the result of a job that succeeds is kept, at most 36,600 days; zero, the default, is for ever.
    ResultTtl(Duration),
    /// How long a job that has succeeded or was cancelled stays among the others before it is archived, from 1 minute to
    /// 36,600 days. Default 1 h. Of jobs that have finished already, the leader changes the time in batches.
    HotPeriod(Duration),
    /// How long a job that failed, crashed or was abandoned does so. Default 24 h.
    FailedHotPeriod(Duration),
    /// How long the archive keeps a month after it is over, at most 36,600 days; zero is for ever. Default 365 days.
    ArchiveRetentionPeriod(Duration),
}

impl Setting {
    /// The names of all settings.
    pub const NAMES: [&'static str; 7] = [
        "event_level",
        "event_retention_period",
        "event_retention_batch_size",
        "result_ttl",
        "hot_period",
        "failed_hot_period",
        "archive_retention_period",
    ];

    /// Returns its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::EventLevel(_) => Self::NAMES[0],
            Self::EventRetentionPeriod(_) => Self::NAMES[1],
            Self::EventRetentionBatchSize(_) => Self::NAMES[2],
            Self::ResultTtl(_) => Self::NAMES[3],
            Self::HotPeriod(_) => Self::NAMES[4],
            Self::FailedHotPeriod(_) => Self::NAMES[5],
            Self::ArchiveRetentionPeriod(_) => Self::NAMES[6],
        }
    }
}

/// What is to be changed of what is particular to an actor. What is `None` stays; `Some(None)` is as the store's settings
/// say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ActorChanges {
    /// How long a job of its that has succeeded or was cancelled stays among the others before it is archived, from 1 minute
    /// to 36,600 days.
    pub hot_period: Option<Option<Duration>>,
    /// How long one that failed, crashed or was abandoned does so.
    pub failed_hot_period: Option<Option<Duration>>,
}

/// A setting as it stands.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SettingSummary {
    /// Its name.
    pub name: String,
    /// What somebody has set; `None` means the default.
    pub value: Option<Json>,
    /// What is wrong with that; what depends on it does not run.
    pub problem: Option<String>,
}
