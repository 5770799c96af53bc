//! How fast the slots of a queue take jobs, and so how many are worth claiming before there is a slot for them.

use std::time::Duration;

use tokio::time::Instant;

/// How much work is claimed ahead: what the slots will start within this time. More than a claim takes, so that slots
/// never wait for one; little enough that other workers get what this one could not start soon.
pub(super) const AHEAD: Duration = Duration::from_millis(100);
/// The most jobs of one queue that are claimed ahead: a claim's worth. A claim passes over the index entries of what was
/// claimed before it, which large ones share.
const AHEAD_LIMIT: u32 = 3_000;
/// The newest attempt counts for one in so many in the mean duration.
const WEIGHT: u32 = 8;

/// What is known of a queue's attempts lately.
#[derive(Default)]
pub(super) struct Pace {
    /// How long attempts take on the average; `None` until the first has ended.
    mean: Option<Duration>,
    last_end: Option<Instant>,
    /// The window that counts starts now; it is as long as [`AHEAD`].
    window: Option<Instant>,
    starts: u32,
    /// The starts of the window before.
    starts_before: u32,
}

impl Pace {
    /// Notes that an attempt starts.
    pub(super) fn started(&mut self, now: Instant) {
        let since = self.window.map(|began| now.saturating_duration_since(began));
        if since.is_none_or(|since| since >= AHEAD) {
            self.starts_before = if since.is_some_and(|since| since < AHEAD * 2) { self.starts } else { 0 };
            self.starts = 0;
            self.window = Some(now);
        }
        self.starts = self.starts.saturating_add(1);
    }

    /// Notes that an attempt has ended, and how long it took.
    pub(super) fn ended(&mut self, took: Duration, now: Instant) {
        self.mean = Some(
            self.mean.map_or(took, |mean| mean.saturating_mul(WEIGHT - 1).saturating_add(took) / WEIGHT),
        );
        self.last_end = Some(now);
    }

    /// Returns how many jobs `slots` slots will start within [`AHEAD`], all of them taken now.
    ///
    /// Three things bound it, and the least counts: the starts of late, which stand for whatever else holds the worker
    /// up; what the slots turn over at the mean duration, which no burst of starts can feign; and nothing at all when a
    /// mean attempt outlasts [`AHEAD`] or none has ended for so long, since the jobs would only wait here.
    pub(super) fn ahead(&self, slots: u32, now: Instant) -> u32 {
        let (Some(mean), Some(last_end)) = (self.mean, self.last_end) else { return 0 };
        let stuck = now.saturating_duration_since(last_end) > AHEAD;
        if stuck || mean > AHEAD {
            return 0;
        }
        let turnover = (AHEAD * slots).as_nanos() / mean.as_nanos().max(1);
        let turnover = u32::try_from(turnover).unwrap_or(u32::MAX);
        turnover.min(self.starts_lately(now)).min(AHEAD_LIMIT)
    }

    /// The starts of this window or of the one before, whichever had more: the newest is not over yet.
    fn starts_lately(&self, now: Instant) -> u32 {
        match self.window.map(|began| now.saturating_duration_since(began)) {
            Some(since) if since < AHEAD => self.starts.max(self.starts_before),
            Some(since) if since < AHEAD * 2 => self.starts,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Lets every slot run jobs of one length, all at the same time, and returns what may be claimed ahead after each.
    fn rounds(pace: &mut Pace, start: Instant, slots: u32, length: Duration, rounds: u32) -> Vec<u32> {
        let mut ahead = Vec::new();
        for round in 0..rounds {
            let begins = start + length * round;
            for _ in 0..slots {
                pace.started(begins);
            }
            for _ in 0..slots {
                pace.ended(length, begins + length);
            }
            ahead.push(pace.ahead(slots, begins + length));
        }
        ahead
    }

    #[test]
    fn nothing_is_claimed_ahead_of_what_is_not_known() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        assert_eq!(pace.ahead(32, now), 0);
        for _ in 0..32 {
            pace.started(now);
        }
        assert_eq!(pace.ahead(32, now), 0, "a burst of starts says nothing");
    }

    #[test]
    fn long_jobs_are_not_claimed_ahead_even_when_they_end_together() {
        for length in [AHEAD + MILLISECOND, Duration::from_secs(1), Duration::from_secs(10)] {
            let ahead = rounds(&mut Pace::default(), Instant::now(), 4, length, 6);
            assert_eq!(ahead, [0; 6], "{length:?}");
        }
    }

    #[test]
    fn it_grows_with_the_starts_to_what_the_slots_turn_over() {
        let mut pace = Pace::default();
        let now = Instant::now();
        let ahead = rounds(&mut pace, now, 4, MILLISECOND * 10, 30);
        assert_eq!(ahead[..3], [4, 8, 12], "as many as have started");
        assert!(ahead[20..].iter().all(|ahead| *ahead == 40), "{ahead:?}");
        let now = now + MILLISECOND * 300;
        assert_eq!(pace.ahead(4, now + AHEAD / 2), 40);
        assert_eq!(pace.ahead(4, now + AHEAD + MILLISECOND), 0, "no slot turns over any more");
    }

    #[test]
    fn jobs_that_take_no_time_are_bounded_by_what_was_started() {
        let mut pace = Pace::default();
        let now = Instant::now();
        for _ in 0..50 {
            pace.started(now);
            pace.ended(Duration::ZERO, now);
        }
        assert_eq!(pace.ahead(1, now), 50);
        for _ in 0..AHEAD_LIMIT {
            pace.started(now);
            pace.ended(Duration::ZERO, now);
        }
        assert_eq!(pace.ahead(1, now), AHEAD_LIMIT);
        assert_eq!(pace.ahead(1, now + AHEAD), AHEAD_LIMIT, "the window before counts");
        pace.ended(Duration::ZERO, now + AHEAD * 2);
        assert_eq!(pace.ahead(1, now + AHEAD * 2), 0, "older ones do not");
    }

    #[test]
    fn one_long_attempt_among_short_ones_is_forgotten_and_a_run_of_them_is_not() {
        let mut pace = Pace::default();
        let now = Instant::now();
        for n in 0..200 {
            pace.started(now);
            pace.ended(if n == 100 { Duration::from_secs(1) } else { MILLISECOND }, now);
        }
        assert!(pace.ahead(4, now) > 100);
        for _ in 0..8 {
            pace.ended(Duration::from_secs(1), now);
        }
        assert_eq!(pace.ahead(4, now), 0);
    }
}
