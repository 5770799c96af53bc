//! One job on its way into the store.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde::Serialize;

use super::{Client, EnqueueError, Job, JobHandle};
use crate::model::{ActorName, InvalidName, Json, NewJob, PAYLOAD_LIMIT, QueueName, RetryPolicy, Schedule};

/// The largest metadata, in bytes of its JSON text.
const METADATA_LIMIT: usize = 64 * 1024;

/// A job about to be enqueued: await it, after changing what the job's type says.
///
/// Bounds are checked when it is awaited; what is out of bounds is refused before anything is written.
///
/// # Cancel safety
/// Dropping the future before it is done leaves it open whether the job is written.
#[must_use = "a job is enqueued only when this is awaited"]
pub struct Enqueue<J> {
    client: Client,
    job: Result<NewJob, EnqueueError>,
    marker: PhantomData<fn() -> J>,
}

impl<J: Job> Enqueue<J> {
    pub(super) fn new(client: Client, job: &J) -> Self {
        Self { client, job: new_job(job), marker: PhantomData }
    }

    /// Enqueues it to another queue than the job's own.
    pub fn queue(self, queue: &str) -> Self {
        self.try_change(|job| {
            job.queue = QueueName::new(queue)?;
            Ok(())
        })
    }

    /// Lets it run no earlier than `delay` from now, by the store's clock; at most 36,600 days.
    pub fn run_in(self, delay: Duration) -> Self {
        self.change(|job| job.schedule = Schedule::After(delay))
    }

    /// Lets it run no earlier than at `time`. A time that has passed means at once.
    pub fn run_at(self, time: Timestamp) -> Self {
        self.change(|job| job.schedule = Schedule::At(time))
    }

    /// Sets its priority: within a queue, jobs with a higher one are claimed first. Default 0.
    pub fn priority(self, priority: i16) -> Self {
        self.change(|job| job.priority = priority)
    }

    /// Sets how many attempts may be made; 1 to 32,767. Default: the job's [`MAX_ATTEMPTS`](Job::MAX_ATTEMPTS).
    pub fn max_attempts(self, attempts: i16) -> Self {
        self.change(|job| job.max_attempts = attempts)
    }

    /// Bounds how long one attempt may take: its handler is stopped then and the attempt fails. Default: no
    /// bound.
    pub fn start_to_close(self, bound: Duration) -> Self {
        self.change(|job| job.start_to_close = Some(bound))
    }

    /// Sets the deadline after which no attempt starts; it must lie behind the time it is scheduled for.
    pub fn deadline(self, time: Timestamp) -> Self {
        self.change(|job| job.schedule_to_close = Some(time))
    }

    /// Sets when failed attempts are tried again. Default: [`RetryPolicy::default`].
    pub fn retry(self, policy: RetryPolicy) -> Self {
        self.change(|job| job.retry_policy = Some(policy))
    }

    /// Adds a label for operators; at most 64, each like a name.
    pub fn tag(self, tag: impl Into<String>) -> Self {
        self.change(|job| job.tags.push(tag.into()))
    }

    /// Attaches data of the caller's own, which must serialise to a JSON object of at most 64 KiB.
    pub fn metadata(self, metadata: &impl Serialize) -> Self {
        self.try_change(|job| {
            let json = Json::from_value(metadata, METADATA_LIMIT).map_err(EnqueueError::Metadata)?;
            job.metadata = Some(json);
            Ok(())
        })
    }

    /// Returns the job as the store would receive it, for those who write it themselves.
    ///
    /// # Errors
    /// [`EnqueueError`] when its payload, its metadata or a name is refused.
    pub fn into_new_job(self) -> Result<NewJob, EnqueueError> {
        self.job
    }

    fn change(mut self, change: impl FnOnce(&mut NewJob)) -> Self {
        if let Ok(job) = &mut self.job {
            change(job);
        }
        self
    }

    fn try_change(mut self, change: impl FnOnce(&mut NewJob) -> Result<(), EnqueueError>) -> Self {
        if let Ok(job) = &mut self.job
            && let Err(error) = change(job)
        {
            self.job = Err(error);
        }
        self
    }
}

impl<J: Job> IntoFuture for Enqueue<J> {
    type Output = Result<JobHandle<J>, EnqueueError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            // The id is our own and new: a job that is there already is this one, written by a first try
            // whose answer was lost.
            let enqueued = self.client.enqueue_one(self.job?).await?;
            Ok(JobHandle::new(enqueued.id, self.client))
        })
    }
}

impl<J> fmt::Debug for Enqueue<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enqueue").field("job", &self.job).finish_non_exhaustive()
    }
}

/// Makes the job that a value stands for.
pub(super) fn new_job<J: Job>(job: &J) -> Result<NewJob, EnqueueError> {
    let names = || -> Result<_, InvalidName> { Ok((QueueName::new(J::QUEUE)?, ActorName::new(J::ACTOR)?)) };
    let (queue, actor) = names()?;
    let payload = Json::from_value(job, PAYLOAD_LIMIT).map_err(EnqueueError::Payload)?;
    Ok(NewJob {
        payload_version: J::VERSION,
        max_attempts: J::MAX_ATTEMPTS,
        ..NewJob::new(queue, actor, payload)
    })
}
