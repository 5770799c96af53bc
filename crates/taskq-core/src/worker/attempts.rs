//! What this session owns: attempts that run, and attempts that ended and are not yet settled.
//!
//! Keyed by job and epoch: the same job may come back under a later epoch while an earlier one is still here.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::model::{Epoch, JobId};

/// Outcomes that may wait to be settled before claiming pauses. Far more than a healthy store lets gather.
const UNSETTLED_LIMIT: usize = 4_000;
/// Bytes of results and errors that may wait to be settled before claiming pauses.
const UNSETTLED_BYTES: usize = 64 * 1024 * 1024;

/// Names one attempt.
pub(super) type Key = (JobId, Epoch);

/// What stops an attempt.
#[derive(Clone, Default)]
pub(super) struct Control {
    /// Tells what the handler started that the attempt is to stop.
    pub(super) cancelled: CancellationToken,
    /// Drops the handler's future.
    pub(super) forced: CancellationToken,
}

/// The attempts of one session.
#[derive(Default)]
pub(super) struct Attempts {
    state: Mutex<State>,
    emptied: Notify,
}

#[derive(Default)]
struct State {
    attempts: HashMap<Key, Phase>,
    running: usize,
    unsettled_bytes: usize,
}

enum Phase {
    Running(Control),
    Ended { bytes: usize },
}

impl Attempts {
    /// Takes an attempt into ownership; `None` when it is here already.
    pub(super) fn begin(&self, key: Key) -> Option<Control> {
        let mut state = self.lock();
        if state.attempts.contains_key(&key) {
            return None;
        }
        let control = Control::default();
        state.attempts.insert(key, Phase::Running(control.clone()));
        state.running += 1;
        Some(control)
    }

    /// Notes that an attempt's task has really ended, with an outcome of so many bytes.
    pub(super) fn ended(&self, key: Key, bytes: usize) {
        let mut state = self.lock();
        if let Some(phase @ Phase::Running(_)) = state.attempts.get_mut(&key) {
            *phase = Phase::Ended { bytes };
            state.running -= 1;
            state.unsettled_bytes += bytes;
        }
        if state.running == 0 {
            self.emptied.notify_waiters();
        }
    }

    /// Gives up ownership of attempts that are settled. Returns whether that made room to claim again.
    pub(super) fn settled(&self, keys: impl Iterator<Item = Key>) -> bool {
        let mut state = self.lock();
        let was_full = state.room() == 0;
        for key in keys {
            if let Some(Phase::Ended { bytes }) = state.attempts.remove(&key) {
                state.unsettled_bytes -= bytes;
            }
        }
        if state.attempts.len() == state.running {
            self.emptied.notify_waiters();
        }
        was_full && state.room() > 0
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

    /// Stops every attempt that runs.
    pub(super) fn force_all(&self) {
        let controls: Vec<_> = self
            .lock()
            .attempts
            .values()
            .filter_map(|phase| match phase {
                Phase::Running(control) => Some(control.clone()),
                Phase::Ended { .. } => None,
            })
            .collect();
        for control in controls {
            control.cancelled.cancel();
            control.forced.cancel();
        }
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

impl State {
    fn unsettled(&self) -> usize {
        self.attempts.len() - self.running
    }

    fn room(&self) -> usize {
        if self.unsettled_bytes >= UNSETTLED_BYTES {
            return 0;
        }
        UNSETTLED_LIMIT.saturating_sub(self.unsettled())
    }
}
