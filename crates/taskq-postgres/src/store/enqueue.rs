//! Writing jobs, and waking those who wait for them.

use std::sync::Arc;
use std::time::Duration;

use taskq_core::model::{EnqueueOutcome, Enqueued, JobId, Keep, NewJob, OnFinished, Schedule, Status};
use taskq_core::store::StoreError;
use tokio::time::{Instant, sleep, sleep_until};
use uuid::Uuid;

use super::Calls;
use super::documents::{Notify, check_jobs, of_job, of_jobs};
use crate::codec::{Columns, JsonbRef, only};
use crate::notify::{Topic, topic_of};

/// How long a key may be on its way into another job before the enqueue gives up.
const BUSY_LIMIT: Duration = Duration::from_secs(5);
/// How long the connection is left to others before the key is asked for again.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

impl Calls {
    pub(super) async fn enqueue(self: Arc<Self>, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        check_jobs(&jobs)?;
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
        let result = self.write(&jobs).await;
        // After an answer that was lost the jobs may be there as well.
        if matches!(result, Ok(_) | Err(StoreError::Unavailable { .. })) {
            for topic in held_back {
                self.wake_later(topic);
            }
        }
        let answers = result?;
        if answers.len() != jobs.len() {
            let message = format!("{} answers to {} jobs", answers.len(), jobs.len());
            return Err(StoreError::Answer { message });
        }
        Ok(answers)
    }

    /// Writes jobs, in the way that costs least for so many.
    async fn write(&self, jobs: &[(NewJob, Notify)]) -> Result<Vec<Enqueued>, StoreError> {
        if jobs.iter().any(|(job, _)| job.idempotency_key.is_some()) {
            return self.write_keyed(jobs).await;
        }
        if let Some(answers) = self.write_staged(jobs).await? {
            return Ok(answers);
        }
        let rows = match jobs {
            [(job, notify)] if is_plain(job) => return Ok(vec![self.write_plain(job, *notify).await?]),
            [(job, notify)] => self.client.query(&self.statements.enqueue, &[&of_job(job, *notify)?]).await,
            jobs => self.client.query(&self.statements.enqueue_many, &[&of_jobs(jobs)?]).await,
        };
        rows?.iter().map(|row| enqueued(&mut Columns::of(row))).collect()
    }

    /// Writes jobs with idempotency keys. While another transaction is about to take one of them, it asks again and again, so
    /// that what others send on the same connection gets in between.
    async fn write_keyed(&self, jobs: &[(NewJob, Notify)]) -> Result<Vec<Enqueued>, StoreError> {
        let documents = of_jobs(jobs)?;
        let give_up = Instant::now() + BUSY_LIMIT;
        loop {
            match self.client.query(&self.statements.enqueue_keyed, &[&documents]).await {
                Err(StoreError::Busy { .. }) if Instant::now() < give_up => sleep(BUSY_PAUSE).await,
                rows => return rows?.iter().map(|row| enqueued(&mut Columns::of(row))).collect(),
            }
        }
    }

    /// Writes one job of common fields, without a document.
    async fn write_plain(&self, job: &NewJob, notify: Notify) -> Result<Enqueued, StoreError> {
        let (queue, actor) = (job.queue.as_str(), job.actor.as_str());
        let wakes = notify == Notify::Default && job.notify == Notify::Default;
        let payload = JsonbRef(&job.payload);
        let rows = self
            .client
            .query(
                &self.statements.enqueue_plain,
                &[
                    &job.id.0,
                    &queue,
                    &actor,
                    &payload,
                    &job.payload_version,
                    &job.priority,
                    &job.max_attempts,
                    &wakes,
                ],
            )
            .await?;
        Columns::of(only(&rows)?).read_as(|word: String| plainly_enqueued(job.id, &word))
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

/// Reads the answer of `enqueue_plain`.
pub(crate) fn plainly_enqueued(id: JobId, word: &str) -> Result<Enqueued, String> {
    let (outcome, status) = match word {
        "created" => (EnqueueOutcome::Created, Status::Pending),
        status => {
            let status = status.parse().map_err(|_| format!("unknown status {status:?}"))?;
            (EnqueueOutcome::Existing, status)
        }
    };
    Ok(Enqueued { id, outcome, status: Some(status) })
}

/// Says whether a job has nothing that `enqueue_plain` does not take.
pub(crate) fn is_plain(job: &NewJob) -> bool {
    // Taken apart, so that nobody forgets a field that is added.
    let NewJob {
        id: _,
        queue: _,
        actor: _,
        payload: _,
        payload_version: _,
        priority: _,
        max_attempts: _,
        schedule,
        schedule_to_close: None,
        start_to_close: None,
        retry_policy: None,
        fairness_key: None,
        tags,
        metadata: None,
        trace_context: None,
        idempotency_key: None,
        // Without a key it has no meaning, and the server says so.
        on_finished: OnFinished::Return,
        keep: Keep::All,
        notify: _,
    } = job
    else {
        return false;
    };
    *schedule == Schedule::Now && tags.is_empty()
}

/// Reads the answer to one job: id, outcome and status.
pub(super) fn enqueued(columns: &mut Columns<'_>) -> Result<Enqueued, StoreError> {
    Ok(Enqueued {
        id: JobId(columns.read::<Uuid>()?),
        outcome: columns.read_as(|word: String| match word.as_str() {
            "created" => Ok(EnqueueOutcome::Created),
            "existing" => Ok(EnqueueOutcome::Existing),
            "replaced" => Ok(EnqueueOutcome::Replaced),
            _ => Err(format!("unknown outcome {word:?}")),
        })?,
        status: columns.read_as(|word: Option<String>| word.map(|word| word.parse()).transpose())?,
    })
}
