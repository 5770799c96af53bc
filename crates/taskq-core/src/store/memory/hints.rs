//! What a verb leaves to be told to those who wait.

use std::collections::BTreeSet;

use super::super::Wake;
use crate::model::QueueName;

/// The hints of one call, each at most once.
#[derive(Default)]
pub(super) struct Hints {
    ready: BTreeSet<QueueName>,
    due: bool,
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

    /// Takes the hints out.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Wake> + use<> {
        let taken = std::mem::take(self);
        taken.ready.into_iter().map(Wake::Ready).chain(taken.due.then_some(Wake::Due))
    }
}
