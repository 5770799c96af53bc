//! Telling workers of jobs that were enqueued without telling.

use std::collections::BTreeSet;
use std::fmt;

use super::Client;
use crate::model::QueueName;
use crate::store::{StoreError, Wake};

/// Tells workers of jobs that were enqueued with [`Notify::None`](crate::model::Notify::None): to be fired after the
/// commit. Dropped unfired, the workers find the jobs when they look next, at the latest after seconds.
///
/// Tokens of one transaction can be [merged](Self::merge), so that each queue is told once.
#[must_use = "the workers are told when the token is fired"]
#[derive(Clone)]
pub struct WakeToken {
    client: Client,
    queues: BTreeSet<QueueName>,
    due: bool,
}

impl WakeToken {
    pub(super) fn new(client: Client, owed: Option<Wake>) -> Self {
        let mut token = Self { client, queues: BTreeSet::new(), due: false };
        match owed {
            Some(Wake::Ready(queue)) => {
                token.queues.insert(queue);
            }
            Some(Wake::Due) => token.due = true,
            _ => {}
        }
        token
    }

    /// Says whether there is nobody to tell.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty() && !self.due
    }

    /// Adds what another token has to tell. Both are of clients of one store.
    pub fn merge(mut self, other: Self) -> Self {
        self.queues.extend(other.queues);
        self.due |= other.due;
        self
    }

    /// Tells the workers, on the client's own connection: at most once per queue and millisecond, the last one always.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be reached. The jobs are found all the same, later.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the workers are told.
    pub async fn fire(self) -> Result<(), StoreError> {
        if self.is_empty() {
            return Ok(());
        }
        self.client.store().wake(self.queues.into_iter().collect(), self.due).await
    }
}

impl fmt::Debug for WakeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakeToken")
            .field("queues", &self.queues)
            .field("due", &self.due)
            .finish_non_exhaustive()
    }
}
