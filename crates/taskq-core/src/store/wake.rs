//! Wake-ups: hints that there is something to look at.

use tokio::sync::broadcast;

use crate::model::{QueueName, WorkerId};

/// A hint that there is something to look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wake {
    /// A job of this queue became ready.
    Ready(QueueName),
    /// A job was scheduled that may be due before the leader looks next.
    Due,
    /// Somebody asked to cancel a job that this worker runs: its next beat says which.
    Cancel(WorkerId),
    /// Hints may have been missed: look at everything. Sent whenever the source (re)connects.
    Everything,
    /// The source of hints is gone for now: poll.
    Silence,
}

/// A subscription to wake-ups.
#[derive(Debug)]
pub struct Wakes(broadcast::Receiver<Wake>);

impl Wakes {
    /// Wraps a receiver.
    pub fn new(receiver: broadcast::Receiver<Wake>) -> Self {
        Self(receiver)
    }

    /// Waits for the next hint. A receiver that fell behind gets [`Wake::Everything`]; `None` means that the
    /// store is gone.
    ///
    /// # Cancel safety
    /// Cancel safe: no hint is lost.
    pub async fn next(&mut self) -> Option<Wake> {
        match self.0.recv().await {
            Ok(wake) => Some(wake),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Wake::Everything),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
