//! One job on its way into the store.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde::Serialize;

use super::{Client, EnqueueError, Job, JobHandle};
use crate::model::{
    ActorName, EnqueueOutcome, Enqueued, FairnessKey, IdempotencyKey, InvalidName, Json, NewJob, OnFinished,
    PAYLOAD_LIMIT, QueueName, RetryPolicy, Schedule, Status,
};

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
    on_finished: Option<OnFinished>,
    marker: PhantomData<fn() -> J>,
}

impl<J: Job> Enqueue<J> {
    pub(super) fn new(client: Client, job: &J) -> Self {
        Self { client, job: new_job(job), on_finished: None, marker: PhantomData }
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

    /// Puts it into a cohort, such as one tenant's jobs: in a queue in
    /// [`RoundRobin`](crate::store::QueueMode::RoundRobin) mode cohorts take turns, however many jobs each has. Any other
    /// queue refuses a job with a key, since it would do nothing there.
    pub fn fairness_key(self, key: impl Into<String>) -> Self {
        self.try_change(|job| {
            job.fairness_key = Some(FairnessKey::new(key.into())?);
            Ok(())
        })
    }

    /// Makes the enqueue safe to repeat for 7 days: a job of this actor that has the same key already, whatever else it
    /// says, is the answer, and no other is written.
    ///
    /// If that job has not ended, the handle is of it. If it has, the enqueue fails with
    /// [`EnqueueError::AlreadyFinished`], unless [`on_finished`](Self::on_finished) says what is wanted then: a job that
    /// the caller believes to be on its way and that never runs again is too easily overlooked.
    ///
    /// Two enqueues of one key at the same moment wait for each other, for 5 s at most: then it is
    /// [`EnqueueError::Busy`].
    pub fn idempotency_key(self, key: impl Into<String>) -> Self {
        self.try_change(|job| {
            job.idempotency_key = Some(IdempotencyKey::new(key.into())?);
            Ok(())
        })
    }

    /// Says what is wanted when the job of the [idempotency key](Self::idempotency_key) has ended: the handle of that
    /// job, or that this one runs.
    pub fn on_finished(mut self, wanted: OnFinished) -> Self {
        self.on_finished = Some(wanted);
        self.change(|job| job.on_finished = wanted)
    }

    /// Returns the job as the store would receive it, for those who write it themselves.
    ///
    /// # Errors
    /// [`EnqueueError`] when its payload, its metadata, a name or a key is refused.
    pub fn into_new_job(self) -> Result<NewJob, EnqueueError> {
        let job = self.job?;
        if self.on_finished.is_some() && job.idempotency_key.is_none() {
            return Err(EnqueueError::NoKey);
        }
        Ok(job)
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
            let (client, on_finished) = (self.client.clone(), self.on_finished);
            let job = self.into_new_job()?;
            let id = job.id;
            let Enqueued { id: of, mut outcome, status } = client.enqueue_one(job).await?;
            if of == id {
                if outcome == EnqueueOutcome::Existing {
                    // The id is our own and new: it was written by a first try whose answer was lost.
                    outcome = EnqueueOutcome::Created;
                }
            } else if on_finished.is_none() && status.is_none_or(Status::is_terminal) {
                return Err(EnqueueError::AlreadyFinished { id: of, status });
            }
            Ok(JobHandle::new(of, client, Some(outcome)))
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
