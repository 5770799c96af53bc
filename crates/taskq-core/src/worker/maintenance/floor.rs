//! Where a sweep left off, and when it looks below that again.
//!
//! Rows that a sweep has dealt with leave entries in their index that stay as long as anybody holds an old snapshot, and
//! whoever looks from the start of the index reads them all. So a sweep goes on behind the last row it took. What
//! appears below that place, such as a row whose transaction committed late, is found by looking from the start: always
//! while that is cheap, else as often as a bounded share of the time allows. A leader that is new begins where the one
//! before it says it was.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::store::{LookFrom, SweepKey};

/// A look from the start that takes no longer is cheap.
const CHEAP: Duration = Duration::from_millis(5);
/// How long after the first look of a leader it looks from the start.
const FIRST: Duration = Duration::from_secs(5);
/// One part in so many of the time goes into looks that are not cheap.
pub(super) const SHARE: u32 = 20;

/// Where a sweep left off.
pub(super) struct Floor {
    key: Option<SweepKey>,
    last: Look,
    /// Not before then from the start, because that took long or nobody knows.
    not_before: Option<Instant>,
}

/// What the last look from the start was like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    None,
    Cheap,
    Dear,
}

impl Floor {
    pub(super) const fn new() -> Self {
        Self { key: None, last: Look::None, not_before: None }
    }

    /// Where the next look begins.
    pub(super) fn from(&self, now: Instant) -> LookFrom {
        match (&self.key, self.not_before) {
            _ if self.last == Look::None && self.not_before.is_none() => LookFrom::LastNote,
            (Some(key), Some(at)) if now < at => LookFrom::After(key.clone()),
            _ => LookFrom::Start,
        }
    }

    /// Says whether a look from the start may take long.
    pub(super) fn is_doubtful(&self) -> bool {
        self.last != Look::Cheap
    }

    /// Where the next batch begins.
    pub(super) fn key(&self) -> Option<&SweepKey> {
        self.key.as_ref()
    }

    /// Notes how far a batch came.
    pub(super) fn reached(&mut self, key: Option<SweepKey>) {
        self.key = key;
    }

    /// Notes what a look was like: how long it took, and up to where it found nothing.
    pub(super) fn looked(
        &mut self,
        from: &LookFrom,
        took: Duration,
        clear_to: Option<Timestamp>,
        now: Instant,
    ) {
        if let Some(at) = clear_to {
            self.key = Some(SweepKey { at, id: String::new() });
        }
        match from {
            LookFrom::Start => {
                self.last = if took > CHEAP { Look::Dear } else { Look::Cheap };
                self.not_before = (took > CHEAP).then(|| now + took * SHARE);
            }
            LookFrom::LastNote => self.not_before = Some(now + FIRST),
            LookFrom::After(_) => {}
        }
    }

    /// Leaves what lies below alone for a while.
    pub(super) fn leave(&mut self, until: Instant) {
        self.not_before = self.not_before.max(Some(until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(second: i64) -> SweepKey {
        SweepKey { at: Timestamp::from_second(second).unwrap(), id: String::new() }
    }

    fn after(second: i64) -> LookFrom {
        LookFrom::After(key(second))
    }

    #[test]
    fn a_new_leader_begins_where_the_one_before_was() {
        let (mut floor, now) = (Floor::new(), Instant::now());
        assert_eq!(floor.from(now), LookFrom::LastNote);
        floor.looked(&LookFrom::LastNote, Duration::ZERO, Some(key(1).at), now);
        assert_eq!(floor.from(now), after(1));
        assert_eq!(floor.from(now + FIRST), LookFrom::Start);
        assert!(floor.is_doubtful());
    }

    #[test]
    fn a_cheap_look_is_always_from_the_start() {
        let (mut floor, now) = (Floor::new(), Instant::now());
        floor.reached(Some(key(1)));
        floor.looked(&LookFrom::Start, CHEAP, None, now);
        assert_eq!(floor.from(now), LookFrom::Start);
        assert_eq!(floor.key(), Some(&key(1)));
        assert!(!floor.is_doubtful());
    }

    #[test]
    fn a_dear_look_from_the_start_comes_in_its_share_of_the_time() {
        let (mut floor, now) = (Floor::new(), Instant::now());
        let took = Duration::from_millis(100);
        floor.looked(&LookFrom::Start, took, None, now);
        assert_eq!(floor.from(now), LookFrom::Start, "there is no other place yet");
        floor.reached(Some(key(1)));
        assert_eq!(floor.from(now + took * (SHARE - 1)), after(1));
        floor.looked(&after(1), Duration::ZERO, Some(key(2).at), now);
        assert_eq!(floor.from(now), after(2), "a look from there says nothing of the start");
        assert_eq!(floor.from(now + took * SHARE), LookFrom::Start);
        floor.looked(&LookFrom::Start, Duration::ZERO, None, now);
        assert_eq!(floor.from(now), LookFrom::Start, "as soon as it is cheap again");
    }
}
