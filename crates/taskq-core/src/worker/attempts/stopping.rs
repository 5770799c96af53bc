//! How attempts are stopped: asked first, then forced, then given up.

use std::time::Duration;

use tokio::time::Instant;

use super::{Attempts, Key, Phase, Running, State};
use crate::worker::stop::StopReason;

/// How long an attempt may take to end once it is asked to.
#[derive(Clone, Copy, Debug)]
pub(in crate::worker) struct Graces {
    /// From the request to cancel it until its future is dropped.
    pub(in crate::worker) cooperative: Duration,
    /// From then until it counts as one that never ends.
    pub(in crate::worker) forced: Duration,
}

/// How far an attempt is on its way to a forced end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It runs; what is due is its timeout.
    Free,
    /// It was asked to end; what is due is the end of the cooperative grace.
    Asked,
    /// Its future is being dropped; what is due is the end of the forced grace.
    Forced,
}

/// What the request to cancel a job found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::worker) enum Asked {
    /// It had not started and will not: it is to be settled as cancelled.
    Unstarted,
    /// The attempt is asked to end, or was before, or has ended.
    Told,
}

/// What the passing of time did to attempts.
#[derive(Default)]
pub(in crate::worker) struct Overdue {
    /// Attempts that have not ended although they were forced to: they are to be settled as abandoned.
    pub(in crate::worker) abandoned: Vec<(Key, StopReason)>,
    /// When to look again.
    pub(in crate::worker) next: Option<Instant>,
}

impl Attempts {
    /// Bounds how long an attempt may run.
    pub(in crate::worker) fn bound(&self, key: Key, deadline: Instant) {
        let mut state = self.lock();
        if state.running(&key).is_some_and(|running| running.step == Step::Free) {
            state.put_off(key, Some(deadline));
            self.due.notify_one();
        }
    }

    /// Asks an attempt to end, because somebody cancels its job. Repetitions change nothing.
    pub(in crate::worker) fn cancel(&self, key: Key, now: Instant) -> Asked {
        let mut state = self.lock();
        if let Some(&Phase::Waiting { queue }) = state.attempts.get(&key) {
            state.lines[queue].remove(key);
            state.end_waiting(&[key]);
            return Asked::Unstarted;
        }
        let Some(running) = state.running(&key).filter(|running| running.step == Step::Free) else {
            return Asked::Told;
        };
        running.step = Step::Asked;
        let control = running.control.clone();
        let force_at = now.checked_add(self.graces.cooperative);
        let due = match (running.due, force_at) {
            (Some(timeout), Some(force_at)) => Some(timeout.min(force_at)),
            (timeout, force_at) => timeout.or(force_at),
        };
        state.put_off(key, due);
        drop(state);
        tracing::info!(job = %key.0, epoch = %key.1, "the attempt is asked to end: its job is cancelled");
        control.ask(StopReason::CancelRequested);
        self.due.notify_one();
        Asked::Told
    }

    /// Ends an attempt that the store does not list, started or not. Nothing is settled of it. `false` when it has ended.
    pub(in crate::worker) fn disown(&self, key: Key, now: Instant) -> bool {
        let mut state = self.lock();
        if let Some(&Phase::Waiting { queue }) = state.attempts.get(&key) {
            state.lines[queue].remove(key);
            state.waiting -= 1;
            state.attempts.remove(&key);
            return true;
        }
        let known = |running: &&mut Running| !running.disowned && !running.control.is_completed();
        let Some(running) = state.running(&key).filter(known) else { return false };
        running.disowned = true;
        running.step = Step::Forced;
        let control = running.control.clone();
        state.put_off(key, now.checked_add(self.graces.forced));
        drop(state);
        control.force(StopReason::LeaseLost);
        self.due.notify_one();
        true
    }

    /// Stops every attempt that runs.
    pub(in crate::worker) fn force_all(&self, reason: StopReason, now: Instant) {
        let mut state = self.lock();
        let mut controls = Vec::new();
        let mut deadlines = Vec::new();
        for (key, phase) in &mut state.attempts {
            let Phase::Running(running) = phase else { continue };
            controls.push(running.control.clone());
            match running.step {
                // Its job is not abandoned for a reason that is the worker's own.
                Step::Free => deadlines.push((*key, None)),
                Step::Asked => deadlines.push((*key, now.checked_add(self.graces.forced))),
                Step::Forced => {}
            }
            running.step = Step::Forced;
        }
        for (key, due) in deadlines {
            state.put_off(key, due);
        }
        drop(state);
        for control in controls {
            control.force(reason);
        }
        self.due.notify_one();
    }

    /// Takes the steps that are due: what has outlived its timeout or its grace is forced to end, what has outlived
    /// that as well is given up. Its task keeps its slot until it ends after all.
    pub(in crate::worker) fn overdue(&self, now: Instant) -> Overdue {
        let mut overdue = Overdue::default();
        let mut controls = Vec::new();
        let mut state = self.lock();
        while let Some((due, key)) = state.due.first().copied() {
            if due > now {
                overdue.next = Some(due);
                break;
            }
            state.due.remove(&(due, key));
            let Some(running) = state.running(&key) else { continue };
            running.due = None;
            match running.step {
                Step::Free | Step::Asked => {
                    running.step = Step::Forced;
                    controls.push(running.control.clone());
                    state.put_off(key, now.checked_add(self.graces.forced));
                }
                Step::Forced => {
                    let (disowned, reason) = (running.disowned, running.control.reason());
                    self.give_up(&mut state, key, disowned);
                    if !disowned {
                        overdue.abandoned.push((key, reason.unwrap_or(StopReason::TimedOut)));
                    }
                }
            }
        }
        drop(state);
        for control in controls {
            // An attempt that was asked to end before keeps that reason.
            control.force(StopReason::TimedOut);
        }
        overdue
    }

    /// Waits until [`overdue`](Self::overdue) may have something earlier to do.
    pub(in crate::worker) async fn rescheduled(&self) {
        self.due.notified().await;
    }

    /// Gives up every attempt that still runs, unsettled, and returns how many those are.
    pub(in crate::worker) fn give_up_all(&self) -> usize {
        let mut state = self.lock();
        let running = |(key, phase): (&Key, &Phase)| matches!(phase, Phase::Running(_)).then_some(*key);
        let keys: Vec<_> = state.attempts.iter().filter_map(running).collect();
        for key in &keys {
            state.put_off(*key, None);
            self.give_up(&mut state, *key, true);
        }
        keys.len()
    }

    /// The task goes on; here its attempt is over.
    fn give_up(&self, state: &mut State, key: Key, discard: bool) {
        state.running -= 1;
        if discard {
            state.attempts.remove(&key);
        } else {
            state.attempts.insert(key, Phase::Ended { bytes: 0 });
        }
        self.totals.stuck();
        if state.running == 0 {
            self.emptied.notify_waiters();
        }
    }
}

impl State {
    /// Sets when the next step of a running attempt is due.
    pub(super) fn put_off(&mut self, key: Key, due: Option<Instant>) {
        let Some(running) = self.running(&key) else { return };
        let before = std::mem::replace(&mut running.due, due);
        if let Some(before) = before {
            self.due.remove(&(before, key));
        }
        if let Some(due) = due {
            self.due.insert((due, key));
        }
    }
}
