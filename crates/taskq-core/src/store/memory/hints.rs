//! What a verb leaves to be told to those who wait.

use std::collections::BTreeSet;

use super::super::Wake;
use super::state::State;
use crate::model::{QueueName, WorkerId};

/// The hints of one call, each at most once.
#[derive(Clone, Default)]
pub(super) struct Hints {
    ready: BTreeSet<QueueName>,
    due: bool,
    cancel: BTreeSet<WorkerId>,
}

impl Hints {
    /// A job of the queue became ready.
    pub(super) fn ready(&mut self, queue: &QueueName) {
        if !self.ready.contains(queue) {
            self.ready.insert(queue.clone());
        }
    }

    /// A job was scheduled.
    pub(super) fn due(&mut self) {
        self.due = true;
    }

    /// Somebody asked to cancel a job that the worker runs.
    pub(super) fn cancel(&mut self, worker: WorkerId) {
        self.cancel.insert(worker);
    }

    /// Takes the hints out.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Wake> + use<> {
        let taken = std::mem::take(self);
        let ready = taken.ready.into_iter().map(Wake::Ready);
        ready.chain(taken.due.then_some(Wake::Due)).chain(taken.cancel.into_iter().map(Wake::Cancel))
    }
}

impl State {
    /// Tells those who wait what a caller wants them to be told.
    pub(super) fn wake(&mut self, queues: &[QueueName], due: bool) {
        for queue in queues {
            self.hints.ready(queue);
        }
        if due {
            self.hints.due();
        }
    }
}
