//! Setting how a queue hands out its jobs.

use std::fmt;

use futures_util::future::BoxFuture;

use super::{Client, OperateError};
use crate::model::{InvalidName, QueueName};
use crate::store::{QueueMode, QueueSet};

/// How many jobs one batch merges at most: short enough that nobody waits for its locks.
const BATCH: u32 = 1_000;

impl Client {
    /// Prepares to set the mode of a queue, which need not have jobs yet: await what this returns. Running workers follow
    /// with their next claim.
    ///
    /// In [`RoundRobin`](QueueMode::RoundRobin) mode jobs may have a fairness key, and the lanes of actors and keys take
    /// turns; jobs that are there already are one lane. In [`StrictFifo`](QueueMode::StrictFifo) mode, the default, there
    /// is one order, fairness keys are refused, and those of jobs that are there count no more.
    pub fn set_queue(&self, name: impl Into<String>, mode: QueueMode) -> SetQueue {
        SetQueue::new(self.clone(), QueueName::new(name.into()), mode)
    }
}

/// What setting a queue's mode has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueChange {
    /// Whether the mode was another before.
    pub changed: bool,
    /// Ready jobs with a fairness key that were put into the one order of their queue.
    pub merged: u64,
}

/// A change of a queue's mode: await it. Back in strict order the ready jobs are merged in batches, each committed by
/// itself; until it is done, jobs that wait for their batch may come later than the order says.
///
/// Fails with an [`OperateError`] when the name is not a name, or the store cannot be reached; it can be repeated. Jobs that
/// were not merged by then are merged by the claims that meet them.
///
/// # Cancel safety
/// Dropping the future stops it after the batch in flight.
#[must_use = "the mode is set only when this is awaited"]
pub struct SetQueue {
    client: Client,
    queue: Result<QueueName, InvalidName>,
    mode: QueueMode,
    progress: Option<Box<dyn FnMut(QueueChange) + Send>>,
}

impl SetQueue {
    pub(super) fn new(client: Client, queue: Result<QueueName, InvalidName>, mode: QueueMode) -> Self {
        Self { client, queue, mode, progress: None }
    }

    /// Tells how far it is, after each batch.
    pub fn on_progress(mut self, progress: impl FnMut(QueueChange) + Send + 'static) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }
}

impl IntoFuture for SetQueue {
    type Output = Result<QueueChange, OperateError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            let queue = self.queue?;
            let mut change = QueueChange::default();
            loop {
                let set = self.client.store().set_queue(queue.clone(), self.mode, BATCH);
                let QueueSet { changed, merged, more } = set.await?;
                change.changed |= changed;
                change.merged += merged;
                if let Some(progress) = &mut self.progress {
                    progress(change);
                }
                if !more {
                    return Ok(change);
                }
            }
        })
    }
}

impl fmt::Debug for SetQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SetQueue");
        shown.field("queue", &self.queue).field("mode", &self.mode).finish_non_exhaustive()
    }
}
