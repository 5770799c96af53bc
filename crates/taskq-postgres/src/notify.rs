//! Few notifications: at most one per queue and window, and the last one always sent.
//!
//! A NOTIFY takes a lock at commit that serialises all commits that notify. So an enqueue within the window
//! of an earlier one carries none; after it has committed, one is sent when the window ends.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use taskq_core::model::{NewJob, Notify, QueueName, Schedule};
use tokio::time::Instant;

/// The shortest time between two wake-ups of one queue.
pub(crate) const WINDOW: Duration = Duration::from_millis(1);

/// Jobs with a longer delay wake nobody: the leader looks more often than this by itself.
const SOON: Duration = Duration::from_mins(1);

/// How many topics are remembered before those whose window is over are forgotten.
const REMEMBERED: usize = 256;

/// What a wake-up is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Topic {
    Ready(QueueName),
    Due,
}

/// When each topic was last told of.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    windows: Mutex<HashMap<Topic, Window>>,
    /// Wake-ups that are owed: promised and not yet sent.
    owed: Mutex<usize>,
    paid: Condvar,
}

#[derive(Debug)]
struct Window {
    last: Instant,
    /// The wake-up at the window's end is on its way.
    trailing: bool,
}

impl Throttle {
    /// Splits topics: those that may be told of now, which opens their window, and those to be told of later.
    pub(crate) fn admit(&self, topics: &[Topic], now: Instant) -> Vec<Topic> {
        let mut windows = self.windows();
        if windows.len() >= REMEMBERED {
            windows.retain(|_, window| window.trailing || now < window.last + WINDOW);
        }
        let mut held_back = Vec::new();
        for topic in topics {
            match windows.get_mut(topic) {
                Some(window) if now < window.last + WINDOW => held_back.push(topic.clone()),
                Some(window) => window.last = now,
                None => {
                    windows.insert(topic.clone(), Window { last: now, trailing: false });
                }
            }
        }
        held_back
    }

    /// Says when the wake-up at the end of a topic's window must be sent, or nothing when it is on its way.
    pub(crate) fn trail(&self, topic: &Topic, now: Instant) -> Option<Instant> {
        let mut windows = self.windows();
        let window = windows.entry(topic.clone()).or_insert(Window { last: now, trailing: false });
        if window.trailing {
            return None;
        }
        window.trailing = true;
        *self.owed() += 1;
        Some((window.last + WINDOW).max(now))
    }

    /// Notes that the wake-up at the window's end is being sent. What commits from here on needs another.
    pub(crate) fn sending(&self, topic: &Topic, now: Instant) {
        self.windows().insert(topic.clone(), Window { last: now, trailing: false });
    }

    /// Notes that the wake-up was sent, or never will be.
    pub(crate) fn sent(&self) {
        *self.owed() -= 1;
        self.paid.notify_all();
    }

    /// Blocks until every wake-up that is owed has been sent, at most for `patience`.
    pub(crate) fn settle_up(&self, patience: Duration) {
        let wait = self.paid.wait_timeout_while(self.owed(), patience, |owed| *owed > 0);
        drop(wait.unwrap_or_else(PoisonError::into_inner));
    }

    fn owed(&self) -> MutexGuard<'_, usize> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn windows(&self) -> MutexGuard<'_, HashMap<Topic, Window>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the enqueue of a job may have to tell of. A job at a given time has no topic: only the server knows
/// whether that time is near, and it tells of those that are. Nor has one that nobody is to be told of.
pub(crate) fn topic_of(job: &NewJob) -> Option<Topic> {
    if job.notify == Notify::None {
        return None;
    }
    match job.schedule {
        Schedule::Now | Schedule::After(Duration::ZERO) => Some(Topic::Ready(job.queue.clone())),
        Schedule::After(delay) => (delay < SOON).then_some(Topic::Due),
        Schedule::At(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str) -> Topic {
        Topic::Ready(QueueName::new(name).unwrap())
    }

    #[test]
    fn one_wake_up_a_window_and_the_last_is_sent() {
        let throttle = Throttle::default();
        let start = Instant::now();
        let at = |tenths: u32| start + WINDOW * tenths / 10;
        let mail = topic("mail");
        let both = [mail.clone(), topic("other")];
        assert_eq!(throttle.admit(&both, at(0)), []);
        assert_eq!(throttle.admit(&both[..1], at(2)), both[..1]);
        assert_eq!(throttle.trail(&mail, at(4)), Some(at(10)));
        assert_eq!(*throttle.owed(), 1);
        assert_eq!(throttle.trail(&mail, at(6)), None, "one is on its way");
        throttle.sending(&mail, at(10));
        assert_eq!(throttle.trail(&mail, at(12)), Some(at(20)), "a later commit needs another");
        assert_eq!(throttle.admit(&both[1..], at(12)), []);
    }

    #[test]
    fn a_commit_that_takes_longer_than_the_window_is_told_of_at_once() {
        let throttle = Throttle::default();
        let start = Instant::now();
        let mail = [topic("mail")];
        assert_eq!(throttle.admit(&mail, start), []);
        let late = start + WINDOW * 10;
        assert_eq!(throttle.trail(&mail[0], late), Some(late));
    }

    #[test]
    fn many_queues_do_not_stay_in_memory() {
        let throttle = Throttle::default();
        let start = Instant::now();
        for n in 0..10_000_u32 {
            let now = start + WINDOW * (n + 1);
            assert_eq!(throttle.admit(&[topic(&format!("q{n}"))], now), []);
        }
        assert!(throttle.windows().len() <= REMEMBERED);
    }
}
