//! What a backend supplies.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use taskq_core::store::{Store, Wakes};

/// A fresh, empty store and the hand that moves its clock.
#[async_trait]
pub trait Harness: Send + Sync {
    /// Returns the store, always the same one. Its wake-ups are live already: a hint for what happens from
    /// now on is not lost because a listener still connects.
    fn store(&self) -> Arc<dyn Store>;

    /// Listens for wake-ups: by the store itself, or, if that cannot hear, by another one on the same jobs.
    fn wakes(&self) -> Wakes {
        self.store().wakes()
    }

    /// Returns the store for what only an operator may do: queues' modes and settings. Default: the same one; a backend
    /// with rights gives one that has them, while [`store`](Self::store) has those of a worker.
    async fn operator(&self) -> Arc<dyn Store> {
        self.store()
    }

    /// Moves the store's clock forward, for every connection.
    async fn advance(&self, by: Duration);

    /// Reads the store's clock.
    async fn now(&self) -> Timestamp;
}
