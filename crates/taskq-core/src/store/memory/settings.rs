//! Settings.

use std::time::Duration;

use super::super::{
    DEFAULT_ARCHIVE_RETENTION_PERIOD, DEFAULT_EVENT_RETENTION_BATCH_SIZE, DEFAULT_EVENT_RETENTION_PERIOD,
    DEFAULT_FAILED_HOT_PERIOD, DEFAULT_HOT_PERIOD, Setting, SettingSummary, StoreError,
};
use jiff::Timestamp;

use super::clock::whole_micros_of;
use super::state::State;
use super::validate;
use crate::model::{EventLevel, Json};

/// What is set.
pub(super) struct Settings {
    pub(super) event_level: EventLevel,
    pub(super) event_retention_period: Duration,
    pub(super) event_retention_batch_size: u32,
    pub(super) result_ttl: Duration,
    pub(super) hot_period: Duration,
    pub(super) failed_hot_period: Duration,
    pub(super) archive_retention_period: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            event_level: EventLevel::default(),
            event_retention_period: DEFAULT_EVENT_RETENTION_PERIOD,
            event_retention_batch_size: DEFAULT_EVENT_RETENTION_BATCH_SIZE,
            result_ttl: Duration::ZERO,
            hot_period: DEFAULT_HOT_PERIOD,
            failed_hot_period: DEFAULT_FAILED_HOT_PERIOD,
            archive_retention_period: DEFAULT_ARCHIVE_RETENTION_PERIOD,
        }
    }
}

impl State {
    pub(super) fn set_setting(&mut self, now: Timestamp, setting: Setting) -> Result<(), StoreError> {
        validate::setting(setting)?;
        match setting {
            Setting::EventLevel(level) => self.settings.event_level = level,
            Setting::EventRetentionPeriod(period) => {
                self.settings.event_retention_period = whole_micros_of(period);
            }
            Setting::EventRetentionBatchSize(size) => self.settings.event_retention_batch_size = size,
            Setting::ResultTtl(ttl) => self.settings.result_ttl = whole_micros_of(ttl),
            Setting::HotPeriod(period) => {
                self.settings.hot_period = whole_micros_of(period);
                self.request_restamp(now);
            }
            Setting::FailedHotPeriod(period) => {
                self.settings.failed_hot_period = whole_micros_of(period);
                self.request_restamp(now);
            }
            Setting::ArchiveRetentionPeriod(period) => {
                self.settings.archive_retention_period = whole_micros_of(period);
            }
        }
        Ok(())
    }

    pub(super) fn setting_summaries(&self) -> Vec<SettingSummary> {
        let set = &self.settings;
        let unset = Settings::default();
        let values = [
            (set.event_level != unset.event_level).then(|| format!("\"{}\"", set.event_level.as_str())),
            (set.event_retention_period != unset.event_retention_period)
                .then(|| seconds(set.event_retention_period)),
            (set.event_retention_batch_size != unset.event_retention_batch_size)
                .then(|| set.event_retention_batch_size.to_string()),
            (set.result_ttl != unset.result_ttl).then(|| seconds(set.result_ttl)),
            (set.hot_period != unset.hot_period).then(|| seconds(set.hot_period)),
            (set.failed_hot_period != unset.failed_hot_period).then(|| seconds(set.failed_hot_period)),
            (set.archive_retention_period != unset.archive_retention_period)
                .then(|| seconds(set.archive_retention_period)),
        ];
        let summary = |(name, value): (&str, Option<String>)| SettingSummary {
            name: name.to_owned(),
            value: value.and_then(|text| Json::from_store(text).ok()),
            problem: None,
        };
        Setting::NAMES.into_iter().zip(values).map(summary).collect()
    }
}

fn seconds(period: Duration) -> String {
    format!("\"{}.{:06} seconds\"", period.as_secs(), period.subsec_micros())
}
