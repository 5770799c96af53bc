//! What this session owns: jobs that wait for a slot, attempts that run, and attempts that ended and are not yet
//! settled.
//!
//! Keyed by job and epoch: the same job may come back under a later epoch while an earlier one is still here. One lock
//! guards all of it, so that whoever asks finds a job in exactly one of the three.

mod line;
mod pace;
mod stopping;

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::handle::Totals;
use super::stop::Control;
use crate::model::{ClaimedJob, Epoch, JobId};
pub(super) use line::Waiter;
use line::{Line, Need};
use stopping::Step;
pub(super) use stopping::{Asked, Graces};

/// Outcomes that may wait to be settled before claiming pauses. Far more than a healthy store lets gather.
const UNSETTLED_LIMIT: usize = 8_000;
/// Bytes of results and errors that may wait to be settled before claiming pauses.
const UNSETTLED_BYTES: usize = 64 * 1024 * 1024;

/// Names one attempt.
pub(super) type Key = (JobId, Epoch);

/// The attempts of one session.
pub(super) struct Attempts {
    graces: Graces,
    totals: Totals,
    state: Mutex<State>,
    emptied: Notify,
    due: Notify,
}

struct State {
    attempts: HashMap<Key, Phase>,
    /// The jobs that wait, by queue.
    lines: Vec<Line>,
    waiting: usize,
    /// How often the claimer has looked after them.
    tick: u64,
    /// Nothing starts any more.
    closed: bool,
    running: usize,
    unsettled_bytes: usize,
    /// Those of the ended ones that may have recorded their success themselves.
    completed: HashSet<Key>,
    /// When attempts are to take the next step on their way to the end.
    due: BTreeSet<(Instant, Key)>,
}

enum Phase {
    /// It is claimed and has not started.
    Waiting {
        queue: usize,
    },
    Running(Running),
    /// Its outcome waits to be settled.
    Ended {
        bytes: usize,
    },
}

struct Running {
    control: Control,
    queue: usize,
    started: Instant,
    step: Step,
    due: Option<Instant>,
    /// The store knows nothing of it: its outcome is nobody's business.
    disowned: bool,
}

/// What became of jobs that a claim returned, if they do not wait now.
#[derive(Default)]
pub(super) struct Admitted {
    /// They are here already.
    pub(super) twice: Vec<Key>,
    /// They came after the session was closed, and are to be settled as released.
    pub(super) closed: Vec<Key>,
}

/// What a slot is to do next.
pub(super) enum Next {
    /// Run this job.
    Start {
        job: ClaimedJob,
        control: Control,
        /// So few jobs wait that the claimer wants to be told.
        low: bool,
    },
    /// Ask again: this job's deadline may have passed, so that it is to be settled as released and the store decides.
    Late(Key),
}

/// What became of an attempt whose task has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// Its outcome is to be settled.
    Settle,
    /// Nothing: it was given up before, or the store knows nothing of it.
    Discard,
}

impl Attempts {
    pub(super) fn new(graces: Graces, queues: usize, totals: Totals) -> Self {
        let state = State {
            attempts: HashMap::new(),
            lines: std::iter::repeat_with(Line::default).take(queues).collect(),
            waiting: 0,
            tick: 0,
            closed: false,
            running: 0,
            unsettled_bytes: 0,
            completed: HashSet::new(),
            due: BTreeSet::new(),
        };
        let (emptied, due) = (Notify::new(), Notify::new());
        Self { graces, totals, state: Mutex::new(state), emptied, due }
    }

    /// Takes the jobs that a claim returned of a queue into ownership: they wait for slots. Those that are here already
    /// are left alone.
    pub(super) fn admit(&self, queue: usize, jobs: Vec<Waiter>) -> Admitted {
        let mut state = self.lock();
        let mut admitted = Admitted::default();
        let mut new = Vec::with_capacity(jobs.len());
        for waiter in jobs {
            let key = waiter.key();
            match state.attempts.entry(key) {
                Entry::Occupied(_) => admitted.twice.push(key),
                Entry::Vacant(entry) => {
                    entry.insert(Phase::Waiting { queue });
                    new.push(waiter);
                }
            }
        }
        state.waiting += new.len();
        if state.closed {
            admitted.closed = new.iter().map(Waiter::key).collect();
            state.end_waiting(&admitted.closed);
        } else {
            let tick = state.tick;
            state.lines[queue].extend(new, tick);
        }
        admitted
    }

    /// Takes at most `free` slots for jobs of a queue that wait; each of the slots has to ask for one, or to say that it
    /// will [not](Self::not_called).
    pub(super) fn call(&self, queue: usize, free: u32) -> u32 {
        let mut state = self.lock();
        if state.closed { 0 } else { state.lines[queue].call(free) }
    }

    /// Notes that a slot that was taken for a job will not ask for it.
    pub(super) fn not_called(&self, queue: usize) {
        self.lock().lines[queue].answered();
    }

    /// Takes the job that waits first, to run it. `called` says that the slot was taken for it.
    pub(super) fn next(&self, queue: usize, called: bool, now: Instant) -> Option<Next> {
        let mut state = self.lock();
        let state = &mut *state;
        let line = &mut state.lines[queue];
        if called {
            line.answered();
        }
        let (waiter, low) = line.pop()?;
        let key = waiter.key();
        state.waiting -= 1;
        if waiter.closes.is_some_and(|closes| now >= closes) {
            state.attempts.insert(key, Phase::Ended { bytes: 0 });
            return Some(Next::Late(key));
        }
        line.pace.started(now);
        let control = Control::default();
        let running = Running {
            control: control.clone(),
            queue,
            started: now,
            step: Step::Free,
            due: None,
            disowned: false,
        };
        state.attempts.insert(key, Phase::Running(running));
        state.running += 1;
        Some(Next::Start { job: waiter.job, control, low })
    }

    /// Says how many jobs of a queue a claim shall ask for, of which `free` of its `slots` slots are free.
    pub(super) fn need(&self, queue: usize, slots: u32, free: u32, now: Instant) -> u32 {
        let mut state = self.lock();
        if state.closed {
            return 0;
        }
        let bytes = state.lines.iter().map(Line::bytes).sum();
        state.lines[queue].need(&Need { slots, free, bytes, now })
    }

    /// Lets a moment pass for the jobs that wait. Returns those that have waited too long; they are to be settled as
    /// released.
    pub(super) fn tick(&self) -> Vec<Key> {
        let mut state = self.lock();
        state.tick += 1;
        let tick = state.tick;
        let overdue: Vec<_> = state.lines.iter_mut().flat_map(|line| line.take_overdue(tick)).collect();
        state.end_waiting(&overdue);
        overdue
    }

    /// Lets nothing start any more. Returns the jobs that wait; they are to be settled as released.
    pub(super) fn close(&self) -> Vec<Key> {
        let mut state = self.lock();
        state.closed = true;
        let waiting: Vec<_> = state.lines.iter_mut().flat_map(Line::clear).collect();
        state.end_waiting(&waiting);
        waiting
    }

    /// Returns how many jobs wait for a slot.
    pub(super) fn waiting(&self) -> usize {
        self.lock().waiting
    }

    /// Takes an attempt that nobody runs into ownership, to be settled at once; `false` when it is here already.
    pub(super) fn adopt(&self, key: Key) -> bool {
        let mut state = self.lock();
        if state.attempts.contains_key(&key) {
            return false;
        }
        state.attempts.insert(key, Phase::Ended { bytes: 0 });
        true
    }

    /// Notes that an attempt has really ended, with an outcome of so many bytes.
    pub(super) fn ended(&self, key: Key, bytes: usize, now: Instant) -> End {
        let mut state = self.lock();
        let Some(&mut Running { queue, started, ref control, .. }) = state.running(&key) else {
            // It was given up before.
            self.totals.unstuck();
            return End::Discard;
        };
        let is_completed = control.is_completed();
        state.lines[queue].pace.ended(now.saturating_duration_since(started), now);
        state.put_off(key, None);
        state.running -= 1;
        let end = match state.attempts.remove(&key) {
            Some(Phase::Running(running)) if running.disowned => End::Discard,
            _ => {
                state.attempts.insert(key, Phase::Ended { bytes });
                if is_completed {
                    state.completed.insert(key);
                }
                state.unsettled_bytes += bytes;
                End::Settle
            }
        };
        if state.running == 0 {
            self.emptied.notify_waiters();
        }
        end
    }

    /// Gives up ownership of attempts that are settled. Returns whether that made room to claim again.
    pub(super) fn settled(&self, keys: impl Iterator<Item = Key>) -> bool {
        let mut state = self.lock();
        let was_full = state.room() == 0;
        for key in keys {
            if let Some(&Phase::Ended { bytes }) = state.attempts.get(&key) {
                state.unsettled_bytes -= bytes;
                state.attempts.remove(&key);
                state.completed.remove(&key);
            }
        }
        if state.unsettled() == 0 {
            self.emptied.notify_waiters();
        }
        was_full && state.room() > 0
    }

    /// Says whether an attempt that has ended may have recorded its success itself.
    pub(super) fn is_completed(&self, key: &Key) -> bool {
        self.lock().completed.contains(key)
    }

    /// Returns how many jobs may be claimed before too many outcomes wait to be settled.
    pub(super) fn room(&self) -> usize {
        self.lock().room()
    }

    pub(super) fn running(&self) -> usize {
        self.lock().running
    }

    /// Returns how many attempts have ended and are not yet settled.
    pub(super) fn unsettled(&self) -> usize {
        self.lock().unsettled()
    }

    /// Lists the attempts that wait or run, and those that have ended and are not yet settled.
    pub(super) fn known(&self) -> Known {
        let state = self.lock();
        let mut known = Known::default();
        for (key, phase) in &state.attempts {
            match phase {
                Phase::Waiting { .. } | Phase::Running(_) => known.open.insert(*key),
                Phase::Ended { .. } => known.ended.insert(*key),
            };
        }
        known
    }

    /// Waits until no attempt runs.
    pub(super) async fn none_running(&self) {
        self.wait_until(|state| state.running == 0).await;
    }

    /// Waits until every attempt that ended is settled.
    pub(super) async fn none_unsettled(&self) {
        self.wait_until(|state| state.unsettled() == 0).await;
    }

    async fn wait_until(&self, reached: impl Fn(&State) -> bool) {
        loop {
            let emptied = self.emptied.notified();
            tokio::pin!(emptied);
            // Armed before the look.
            emptied.as_mut().enable();
            if reached(&self.lock()) {
                return;
            }
            emptied.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, so what a poisoned lock guards is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The attempts of a session at one moment.
#[derive(Default)]
pub(super) struct Known {
    /// Those that wait or run.
    pub(super) open: HashSet<Key>,
    ended: HashSet<Key>,
}

impl Known {
    pub(super) fn contains(&self, key: &Key) -> bool {
        self.open.contains(key) || self.ended.contains(key)
    }
}

impl State {
    fn running(&mut self, key: &Key) -> Option<&mut Running> {
        match self.attempts.get_mut(key) {
            Some(Phase::Running(running)) => Some(running),
            Some(Phase::Waiting { .. } | Phase::Ended { .. }) | None => None,
        }
    }

    /// Ends attempts that have not started and stand in no line any more.
    fn end_waiting(&mut self, keys: &[Key]) {
        self.waiting -= keys.len();
        for key in keys {
            self.attempts.insert(*key, Phase::Ended { bytes: 0 });
        }
    }

    fn unsettled(&self) -> usize {
        self.attempts.len() - self.running - self.waiting
    }

    fn room(&self) -> usize {
        if self.unsettled_bytes >= UNSETTLED_BYTES {
            return 0;
        }
        // What waits for a slot will soon wait to be settled.
        UNSETTLED_LIMIT.saturating_sub(self.unsettled() + self.waiting)
    }
}
