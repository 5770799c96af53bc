//! The clock of an in-memory store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;

/// What time it is for an in-memory store: the machine's, or a test's.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Test(TestClock),
}

impl Clock {
    /// The machine's clock.
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// Reads the clock, in whole microseconds.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => whole_micros(system_now()),
            Source::Test(clock) => clock.now(),
        }
    }
}

impl From<TestClock> for Clock {
    fn from(clock: TestClock) -> Self {
        Self(Source::Test(clock))
    }
}

/// A clock that stands still until a test moves it. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct TestClock(Arc<Mutex<Timestamp>>);

impl TestClock {
    /// Makes a clock that stands at a time.
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(whole_micros(start))))
    }

    /// Reads the clock.
    pub fn now(&self) -> Timestamp {
        *self.0.lock().expect(NEVER_POISONED)
    }

    /// Moves the clock forward, at most to the end of year 9999.
    pub fn advance(&self, by: Duration) {
        let mut time = self.0.lock().expect(NEVER_POISONED);
        *time = later(*time, by);
    }

    /// Sets the clock, backwards too: a server's clock may step.
    pub fn set(&self, time: Timestamp) {
        *self.0.lock().expect(NEVER_POISONED) = whole_micros(time);
    }
}

const NEVER_POISONED: &str = "nothing panics while it holds the time";

/// A time a while later; the last representable one where that is beyond it.
pub(super) fn later(time: Timestamp, by: Duration) -> Timestamp {
    whole_micros(time.checked_add(by).unwrap_or(Timestamp::MAX))
}

/// Cuts a time to whole microseconds, which is what PostgreSQL keeps.
pub(super) fn whole_micros(time: Timestamp) -> Timestamp {
    let nanos = time.subsec_nanosecond();
    Timestamp::new(time.as_second(), nanos - nanos % 1_000)
        .expect("a part of a time's own second is in range")
}

/// Cuts a duration to whole microseconds.
pub(super) const fn whole_micros_of(duration: Duration) -> Duration {
    Duration::new(duration.as_secs(), duration.subsec_micros() * 1_000)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the machine's clock enters a memory store"
)]
fn system_now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_clock_moves_only_when_told() {
        let start = Timestamp::UNIX_EPOCH;
        let clock = TestClock::new(start);
        let seen_by_the_store = Clock::from(clock.clone());
        clock.advance(Duration::from_secs(3));
        assert_eq!(seen_by_the_store.now().as_second(), 3);
        clock.set(start);
        assert_eq!(seen_by_the_store.now(), start);
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), whole_micros(Timestamp::MAX));
    }
}
