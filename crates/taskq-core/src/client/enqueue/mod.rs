//! Jobs on their way into the store.

mod many;
mod prepared;
mod raw;
mod settings;

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde::Serialize;

pub use many::EnqueueMany;
use prepared::Slip;
pub use prepared::{Prepared, PreparedMany};
pub use raw::EnqueueRaw;

use super::{Client, EnqueueError, Job, JobHandle};
use crate::model::{
    ActorName, FairnessKey, IdempotencyKey, InvalidName, Json, Keep, NewJob, Notify, OnFinished,
    PAYLOAD_LIMIT, QueueName, RetryPolicy, Schedule,
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

    settings::methods!();

    /// Makes the enqueue safe to repeat for 7 days: a job of this actor that has the same key already, whatever else it
    /// says, is the answer, and no other is written.
    ///
    /// If that job has not ended, the handle is of it. If it has, the enqueue fails with
    /// [`EnqueueError::AlreadyFinished`], unless [`on_finished`](Self::on_finished) says what is wanted then: a job that
    /// the caller believes to be on its way and that never runs again is too easily overlooked.
    ///
    /// Two enqueues of one key at the same moment wait for each other, for 5 s at most: then it is
    /// [`EnqueueError::Busy`]. In a transaction of the caller's own, the second waits until the first has ended, as long
    /// as that session's `lock_timeout` allows.
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
        self.into_parts().map(|(_, job, _)| job)
    }

    /// Checks every bound that can be checked without the store, and prepares the job for whoever writes it in a
    /// transaction of their own. A refusal by the server would abort that transaction; this one does not.
    ///
    /// # Errors
    /// [`EnqueueError`] when something about the job is refused.
    pub fn prepare(self) -> Result<Prepared<J>, EnqueueError> {
        let (client, job, on_finished) = self.into_parts()?;
        Prepared::checked(client, job, on_finished)
    }

    fn into_parts(self) -> Result<(Client, NewJob, Option<OnFinished>), EnqueueError> {
        let job = self.job?;
        if self.on_finished.is_some() && job.idempotency_key.is_none() {
            return Err(EnqueueError::NoKey);
        }
        Ok((self.client, job, self.on_finished))
    }

    fn change(mut self, change: impl Fn(&mut NewJob)) -> Self {
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
            // The bounds are left to the store, which checks them in any case.
            let (client, job, on_finished) = self.into_parts()?;
            let slip = Slip::of(&job);
            let answer = client.enqueue_one(job).await?;
            slip.answered(client, on_finished, answer)
        })
    }
}

impl<J> fmt::Debug for Enqueue<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enqueue").field("job", &self.job).finish_non_exhaustive()
    }
}

/// Makes the job that a value stands for.
fn new_job<J: Job>(job: &J) -> Result<NewJob, EnqueueError> {
    let names = || -> Result<_, InvalidName> { Ok((QueueName::new(J::QUEUE)?, ActorName::new(J::ACTOR)?)) };
    let (queue, actor) = names()?;
    let payload = Json::from_value(job, PAYLOAD_LIMIT).map_err(EnqueueError::Payload)?;
    Ok(NewJob {
        payload_version: J::VERSION,
        max_attempts: J::MAX_ATTEMPTS,
        priority: J::PRIORITY,
        start_to_close: J::START_TO_CLOSE,
        retry_policy: J::RETRY,
        keep: J::KEEP,
        ..NewJob::new(queue, actor, payload)
    })
}

/// Names the element of a call that is refused.
fn element(index: usize) -> impl FnOnce(EnqueueError) -> EnqueueError {
    move |error| EnqueueError::Element { index, error: Box::new(error) }
}
