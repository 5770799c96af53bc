//! Slots: how many attempts of each queue run at once, and where the queue's turns stand.
//!
//! Both belong to the worker, not to a session: an attempt that does not end keeps its slot beyond the session
//! that it was claimed in, and a lane that waits for its turn does not wait longer because a lease was lost.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::model::QueueName;
use crate::store::Turn;

/// The slots of all queues of a worker.
pub(super) struct Slots {
    queues: Vec<Queue>,
    freed: Notify,
}

struct Queue {
    name: QueueName,
    total: u32,
    taken: AtomicU32,
    turn: Mutex<Option<Turn>>,
}

impl Slots {
    pub(super) fn new(queues: &[(QueueName, u32)]) -> Arc<Self> {
        let queue = |(name, total): &(QueueName, u32)| Queue {
            name: name.clone(),
            total: *total,
            taken: AtomicU32::new(0),
            turn: Mutex::default(),
        };
        Arc::new(Self { queues: queues.iter().map(queue).collect(), freed: Notify::new() })
    }

    /// Returns the queues; elsewhere they are named by their index here.
    pub(super) fn queues(&self) -> impl ExactSizeIterator<Item = &QueueName> {
        self.queues.iter().map(|queue| &queue.name)
    }

    /// Finds a queue's index. Workers serve few queues.
    pub(super) fn index_of(&self, name: &QueueName) -> Option<usize> {
        self.queues.iter().position(|queue| queue.name == *name)
    }

    pub(super) fn free(&self, queue: usize) -> u32 {
        let queue = &self.queues[queue];
        queue.total.saturating_sub(queue.taken.load(Ordering::Acquire))
    }

    /// Returns how many slots a queue has.
    pub(super) fn total(&self, queue: usize) -> u32 {
        self.queues[queue].total
    }

    /// Takes a slot. Only the claimer does, and only as many as are free.
    pub(super) fn take(self: &Arc<Self>, queue: usize) -> Slot {
        self.queues[queue].taken.fetch_add(1, Ordering::AcqRel);
        Slot { slots: Arc::clone(self), queue }
    }

    /// Says where the turns of a queue stand, of which the last claim said so.
    pub(super) fn turn(&self, queue: usize) -> Option<Turn> {
        self.lock_turn(queue).clone()
    }

    /// Notes where the turns of a queue stand.
    pub(super) fn turned(&self, queue: usize, turn: Turn) {
        *self.lock_turn(queue) = Some(turn);
    }

    fn lock_turn(&self, queue: usize) -> MutexGuard<'_, Option<Turn>> {
        // Nothing panics while it is held, so what a poisoned lock guards is whole.
        self.queues[queue].turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many slots are taken, of all queues together.
    pub(super) fn taken(&self) -> u64 {
        self.queues.iter().map(|queue| u64::from(queue.taken.load(Ordering::Acquire))).sum()
    }

    /// Waits until a slot is freed, or [`wake`](Self::wake) is called.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Lets the claimer look at what is free.
    pub(super) fn wake(&self) {
        self.freed.notify_one();
    }
}

/// A taken slot; dropping it frees it.
pub(super) struct Slot {
    slots: Arc<Slots>,
    queue: usize,
}

impl Slot {
    /// Returns the index of its queue.
    pub(super) fn queue(&self) -> usize {
        self.queue
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.queues[self.queue].taken.fetch_sub(1, Ordering::AcqRel);
        self.slots.wake();
    }
}
