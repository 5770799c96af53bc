//! How long to wait before something that failed is tried again.

use std::time::Duration;

/// Doubles from a minimum to a maximum, each time shortened by up to a quarter at random, so that those who
/// failed together do not come back together.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    /// For calls that cost little and that somebody waits for.
    pub(super) const fn brisk() -> Self {
        Self::new(Duration::from_millis(10), Duration::from_secs(1))
    }

    pub(super) const fn new(min: Duration, max: Duration) -> Self {
        Self { min, max, next: min }
    }

    /// Returns how long to wait this time.
    pub(super) fn step(&mut self) -> Duration {
        let delay = self.next;
        self.next = (self.next * 2).min(self.max);
        delay.mul_f64(1.0 - 0.25 * fastrand::f64())
    }

    /// Starts again from the minimum: something worked.
    pub(super) fn reset(&mut self) {
        self.next = self.min;
    }
}
