//! Writing jobs, and waking those who wait for them.

use std::sync::Arc;

use taskq_core::model::{EnqueueOutcome, Enqueued, JobId, NewJob};
use taskq_core::store::StoreError;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::Calls;
use super::documents::{Notify, of_jobs};
use crate::codec::Columns;
use crate::notify::{Topic, topic_of};

impl Calls {
    pub(super) async fn enqueue(self: Arc<Self>, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let topics: Vec<_> = jobs.iter().map(topic_of).collect();
        let mut distinct: Vec<_> = topics.iter().flatten().cloned().collect();
        distinct.sort();
        distinct.dedup();
        let held_back = self.throttle.admit(&distinct, Instant::now());
        let notify = |topic: &Option<Topic>| match topic {
            Some(topic) if held_back.contains(topic) => Notify::None,
            _ => Notify::Default,
        };
        let jobs: Vec<_> = jobs.into_iter().zip(topics.iter().map(notify)).collect();
        let documents = of_jobs(&jobs)?;
        let result = self.client.query(&self.statements.enqueue, &[&documents]).await;
        // After an answer that was lost the jobs may be there as well.
        if matches!(result, Ok(_) | Err(StoreError::Unavailable { .. })) {
            for topic in held_back {
                self.wake_later(topic);
            }
        }
        let rows = result?;
        if rows.len() != jobs.len() {
            let message = format!("{} answers to {} jobs", rows.len(), jobs.len());
            return Err(StoreError::Answer { message });
        }
        rows.iter()
            .map(|row| {
                let mut columns = Columns::of(row);
                Ok(Enqueued {
                    id: JobId(columns.read::<Uuid>()?),
                    outcome: columns.read_as(|word: String| match word.as_str() {
                        "created" => Ok(EnqueueOutcome::Created),
                        "existing" => Ok(EnqueueOutcome::Existing),
                        "replaced" => Ok(EnqueueOutcome::Replaced),
                        _ => Err(format!("unknown outcome {word:?}")),
                    })?,
                    status: columns
                        .read_as(|word: Option<String>| word.map(|word| word.parse()).transpose())?,
                })
            })
            .collect()
    }

    /// Sends a wake-up at the end of its window, unless one is on its way already.
    pub(super) fn wake_later(self: &Arc<Self>, topic: Topic) {
        let Some(due) = self.throttle.trail(&topic, Instant::now()) else {
            return;
        };
        let calls = Arc::clone(self);
        tokio::spawn(async move {
            sleep_until(due).await;
            calls.throttle.sending(&topic, Instant::now());
            let (channel, payload) = match &topic {
                Topic::Ready(queue) => (calls.schema.ready_channel(), queue.as_str()),
                Topic::Due => (calls.schema.due_channel(), ""),
            };
            if let Err(error) = calls.client.query(&calls.statements.notify, &[&channel, &payload]).await {
                tracing::debug!(%error, "a wake-up was not sent; workers look by themselves");
            }
            calls.throttle.sent();
        });
    }
}
