//! What is set for the whole store and read live.

use std::time::Duration;

use serde::Serialize;

use crate::model::{EventLevel, Json};

/// How long events are kept unless something else is set.
pub const DEFAULT_EVENT_RETENTION_PERIOD: Duration = Duration::from_hours(7 * 24);
/// How many events a batch deletes unless something else is set.
pub const DEFAULT_EVENT_RETENTION_BATCH_SIZE: u32 = 10_000;

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
}

impl Setting {
    /// The names of all settings.
    pub const NAMES: [&'static str; 4] =
        ["event_level", "event_retention_period", "event_retention_batch_size", "result_ttl"];

    /// Returns its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::EventLevel(_) => Self::NAMES[0],
            Self::EventRetentionPeriod(_) => Self::NAMES[1],
            Self::EventRetentionBatchSize(_) => Self::NAMES[2],
            Self::ResultTtl(_) => Self::NAMES[3],
        }
    }
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
