//! Wake-ups that a caller asks for.

use std::sync::Arc;

use taskq_core::model::QueueName;
use taskq_core::store::StoreError;
use tokio::time::Instant;

use super::Calls;
use crate::notify::Topic;

impl Calls {
    /// Sends wake-ups, those of a queue that was told of a moment ago at the end of its window.
    pub(super) async fn wake(self: Arc<Self>, queues: Vec<QueueName>, due: bool) -> Result<(), StoreError> {
        let mut topics: Vec<_> = queues.into_iter().map(Topic::Ready).collect();
        topics.extend(due.then_some(Topic::Due));
        let held_back = self.throttle.admit(&topics, Instant::now());
        topics.retain(|topic| !held_back.contains(topic));
        for topic in held_back {
            self.wake_later(topic);
        }
        // Each is tried: their windows have begun, so nobody else tells of them soon.
        let mut told = Ok(());
        for topic in topics {
            told = told.and(self.notify(&topic).await);
        }
        told
    }

    /// Sends one wake-up.
    pub(super) async fn notify(&self, topic: &Topic) -> Result<(), StoreError> {
        let (channel, payload) = match topic {
            Topic::Ready(queue) => (self.schema.ready_channel(), queue.as_str()),
            Topic::Due => (self.schema.due_channel(), ""),
        };
        self.client.query(&self.statements.notify, &[&channel, &payload]).await.map(drop)
    }
}
