//! Whether the store can be reached, as this process sees it.
//!
//! Every call of the worker passes here. When all of them have failed for a while, and this process was alive
//! and trying all the time, then the store itself was away: an outage. What the leader makes of it stands in
//! [`Gate`].

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::heartbeat::BEAT_MAX;
use crate::store::{OutageSpan, StoreError};

/// How long no call may reach the store before that counts as its outage.
const OUTAGE_MIN: Duration = Duration::from_secs(10);
/// How long after an outage nobody is declared lost: two beats, in which workers come back by themselves.
pub(super) const HOLD: Duration = BEAT_MAX.saturating_mul(2);
/// An outage is of no concern to a leader who first looks this long after it: others have led meanwhile.
const CONCERN: Duration = Duration::from_mins(1);
/// How often the process shows that it is alive.
const PULSE: Duration = Duration::from_secs(1);
/// A gap between pulses that means that the process was stopped, and saw nothing of the store.
const FROZEN: Duration = Duration::from_secs(3);

/// Watches whether the store can be reached. One for a worker, whatever its sessions.
pub(super) struct Reach(Mutex<State>);

struct State {
    pulse: Instant,
    reached: Instant,
    failing_since: Option<Instant>,
    outage: Option<Outage>,
}

/// A time in which the store was away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Outage {
    began: Instant,
    ended: Instant,
}

impl Outage {
    /// Says how long ago it was.
    pub(super) fn span(self, now: Instant) -> OutageSpan {
        OutageSpan {
            began: now.saturating_duration_since(self.began),
            ended: now.saturating_duration_since(self.ended),
        }
    }
}

/// Whether workers may be declared lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gate {
    /// Not yet: the store has only just come back.
    Closed,
    /// Yes, for the first time since an outage: leases that ended by it burn no attempt.
    AfterOutage(Outage),
    /// Yes.
    Open,
}

impl Reach {
    pub(super) fn new(now: Instant) -> Self {
        Self(Mutex::new(State { pulse: now, reached: now, failing_since: None, outage: None }))
    }

    /// Makes a call and notes whether it reached the store. One that is dropped unanswered did not.
    pub(super) async fn call<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let unanswered = Unanswered { reach: self, sent: Instant::now() };
        let result = call.await;
        if !matches!(&result, Err(StoreError::Unavailable { .. })) {
            std::mem::forget(unanswered);
            self.reached(Instant::now());
        }
        result
    }

    /// Shows for ever that the process is alive.
    pub(super) async fn pulse(&self) {
        loop {
            tokio::time::sleep(PULSE).await;
            let mut state = self.lock();
            state.thaw(Instant::now());
        }
    }

    /// Says whether workers may be declared lost.
    pub(super) fn gate(&self, now: Instant) -> Gate {
        let mut state = self.lock();
        match state.outage.map(|outage| (outage, now.saturating_duration_since(outage.ended))) {
            Some((_, since)) if since < HOLD => Gate::Closed,
            Some((outage, since)) if since < CONCERN => Gate::AfterOutage(outage),
            _ => {
                state.outage = None;
                Gate::Open
            }
        }
    }

    /// Closes the matter: whoever was lost in the outage is declared so.
    pub(super) fn outage_is_dealt_with(&self) {
        self.lock().outage = None;
    }

    fn reached(&self, now: Instant) {
        let mut state = self.lock();
        state.thaw(now);
        state.reached = now;
        if let Some(since) = state.failing_since.take() {
            let lasted = now.saturating_duration_since(since);
            if lasted > OUTAGE_MIN {
                tracing::warn!(seconds = lasted.as_secs(), "the store can be reached again");
                state.outage = Some(Outage { began: since, ended: now });
            }
        }
    }

    fn failed(&self, sent: Instant, now: Instant) {
        let mut state = self.lock();
        state.thaw(now);
        if state.failing_since.is_none() {
            state.failing_since = Some(sent.max(state.reached));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, so what a poisoned lock guards is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Notes a sign of life. After a gap, nothing is known of the time before.
    fn thaw(&mut self, now: Instant) {
        if now.saturating_duration_since(self.pulse) > FROZEN {
            self.failing_since = None;
            self.reached = now;
        }
        self.pulse = now;
    }
}

struct Unanswered<'a> {
    reach: &'a Reach,
    sent: Instant,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.reach.failed(self.sent, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Fails a call every second for so many seconds, then reaches the store.
    fn outage(reach: &Reach, start: Instant, seconds: u32) -> Instant {
        for second in 0..=seconds {
            let at = start + SECOND * second;
            reach.failed(at, at);
        }
        let end = start + SECOND * seconds + Duration::from_millis(500);
        reach.reached(end);
        end
    }

    #[test]
    fn an_outage_holds_the_gate_for_two_beats_and_is_forgiven_once() {
        let start = Instant::now();
        let reach = Reach::new(start);
        let end = outage(&reach, start, 12);
        assert_eq!(reach.gate(end + SECOND), Gate::Closed);
        let outage = Outage { began: start, ended: end };
        assert_eq!(reach.gate(end + HOLD), Gate::AfterOutage(outage));
        assert_eq!(outage.span(end + HOLD).ended, HOLD);
        reach.outage_is_dealt_with();
        assert_eq!(reach.gate(end + HOLD), Gate::Open);
    }

    #[test]
    fn a_short_failure_is_no_outage_and_an_old_outage_is_no_concern() {
        let start = Instant::now();
        let reach = Reach::new(start);
        let end = outage(&reach, start, 8);
        assert_eq!(reach.gate(end), Gate::Open);
        let end = outage(&reach, end, 12);
        assert_eq!(reach.gate(end + CONCERN), Gate::Open);
        assert_eq!(reach.gate(end + HOLD), Gate::Open, "once forgotten, for good");
    }

    #[test]
    fn a_process_that_was_stopped_saw_no_outage() {
        let start = Instant::now();
        let reach = Reach::new(start);
        reach.failed(start, start);
        let woken = start + SECOND * 60;
        reach.failed(start + SECOND, woken);
        reach.reached(woken + SECOND);
        assert_eq!(reach.gate(woken + SECOND), Gate::Open);
    }
}
