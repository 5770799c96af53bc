//! When a sweep may be tried again after a failure.

use std::time::Duration;

use tokio::time::Instant;

use super::super::backoff::Backoff;

/// Spaces out what fails.
pub(super) struct Pace {
    backoff: Backoff,
    not_before: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
        Self { backoff, not_before: None }
    }
}

impl Pace {
    /// Notes a failure: the next try waits, longer each time.
    pub(super) fn failed(&mut self, now: Instant) {
        self.not_before = Some(now + self.backoff.step());
    }

    /// Notes that something worked.
    pub(super) fn reset(&mut self) {
        self.backoff.reset();
        self.not_before = None;
    }

    pub(super) fn is_free(&self, now: Instant) -> bool {
        self.until().is_none_or(|until| until <= now)
    }

    /// Until when to wait, which may have passed.
    pub(super) fn until(&self) -> Option<Instant> {
        self.not_before
    }
}
