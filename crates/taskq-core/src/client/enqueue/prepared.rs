//! Jobs that are checked and that somebody else writes.

use std::fmt;
use std::marker::PhantomData;

use super::element;
use crate::client::{Client, EnqueueError, Job, JobHandle};
use crate::model::{EnqueueOutcome, Enqueued, JobId, Keep, NewJob, Notify, OnFinished, Schedule, Status};
use crate::store::memory::check_job;
use crate::store::{StoreError, Wake};

/// A job that is checked and not yet written: the caller writes it, in a transaction of their own, and hands over what
/// the store answered.
pub struct Prepared<J> {
    client: Client,
    job: NewJob,
    on_finished: Option<OnFinished>,
    marker: PhantomData<fn() -> J>,
}

impl<J: Job> Prepared<J> {
    pub(super) fn checked(
        client: Client,
        job: NewJob,
        on_finished: Option<OnFinished>,
    ) -> Result<Self, EnqueueError> {
        check(&job)?;
        Ok(Self { client, job, on_finished, marker: PhantomData })
    }

    /// Returns the job.
    pub fn job(&self) -> &NewJob {
        &self.job
    }

    /// Returns the client that it was prepared with.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Turns the store's answer into the handle.
    ///
    /// # Errors
    /// [`EnqueueError::AlreadyFinished`] when the idempotency key belongs to a job that has ended, unless the enqueue
    /// said what is wanted then.
    pub fn answered(self, answer: Enqueued) -> Result<JobHandle<J>, EnqueueError> {
        Slip::of(&self.job).answered(self.client, self.on_finished, answer)
    }
}

impl<J> fmt::Debug for Prepared<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("job", &self.job).finish_non_exhaustive()
    }
}

/// Jobs that are checked and not yet written, as [`Prepared`] is one.
pub struct PreparedMany<J> {
    client: Client,
    jobs: Vec<NewJob>,
    marker: PhantomData<fn() -> J>,
}

impl<J: Job> PreparedMany<J> {
    pub(super) fn checked(client: Client, jobs: Vec<NewJob>) -> Result<Self, EnqueueError> {
        check_each(&jobs)?;
        Ok(Self { client, jobs, marker: PhantomData })
    }

    /// Returns the jobs.
    pub fn jobs(&self) -> &[NewJob] {
        &self.jobs
    }

    /// Returns the client that they were prepared with.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Turns the store's answers into the handles.
    ///
    /// # Errors
    /// [`EnqueueError::Store`] when there are not as many answers as jobs.
    pub fn answered(self, answers: &[Enqueued]) -> Result<Vec<JobHandle<J>>, EnqueueError> {
        handles(&self.client, self.jobs.iter().map(Slip::of), answers)
    }
}

impl<J> fmt::Debug for PreparedMany<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedMany").field("jobs", &self.jobs).finish_non_exhaustive()
    }
}

/// What the handle of a job needs to know of it.
pub(super) struct Slip {
    id: JobId,
    keep: Keep,
    /// Who is to be told of it later.
    owed: Option<Wake>,
}

impl Slip {
    pub(super) fn of(job: &NewJob) -> Self {
        let owed = || match job.schedule {
            Schedule::Now => Wake::Ready(job.queue.clone()),
            Schedule::After(_) | Schedule::At(_) => Wake::Due,
        };
        Self { id: job.id, keep: job.keep, owed: (job.notify == Notify::None).then(owed) }
    }

    pub(super) fn answered<J: Job>(
        self,
        client: Client,
        on_finished: Option<OnFinished>,
        answer: Enqueued,
    ) -> Result<JobHandle<J>, EnqueueError> {
        let Enqueued { id, outcome, status } = answer;
        if id != self.id && on_finished.is_none() && status.is_none_or(Status::is_terminal) {
            return Err(EnqueueError::AlreadyFinished { id, status });
        }
        Ok(self.handle(client, id, outcome))
    }

    fn handle<J: Job>(self, client: Client, id: JobId, outcome: EnqueueOutcome) -> JobHandle<J> {
        let outcome = match outcome {
            // The id is our own and new: it was written by a first try whose answer was lost.
            EnqueueOutcome::Existing if id == self.id => EnqueueOutcome::Created,
            outcome => outcome,
        };
        let owed = self.owed.filter(|_| outcome != EnqueueOutcome::Existing);
        JobHandle::enqueued(client, id, outcome, self.keep, owed)
    }
}

/// Makes the handles of a call's jobs.
pub(super) fn handles<J: Job>(
    client: &Client,
    slips: impl ExactSizeIterator<Item = Slip>,
    answers: &[Enqueued],
) -> Result<Vec<JobHandle<J>>, EnqueueError> {
    if answers.len() != slips.len() {
        let message = format!("{} answers to {} jobs", answers.len(), slips.len());
        return Err(StoreError::Answer { message }.into());
    }
    let pairs = slips.zip(answers);
    Ok(pairs.map(|(slip, answer)| slip.handle(client.clone(), answer.id, answer.outcome)).collect())
}

/// Checks every bound of several jobs; the first one that is refused is named.
pub(super) fn check_each(jobs: &[NewJob]) -> Result<(), EnqueueError> {
    jobs.iter().enumerate().try_for_each(|(index, job)| check(job).map_err(element(index)))
}

fn check(job: &NewJob) -> Result<(), EnqueueError> {
    check_job(job).map_err(|message| StoreError::invalid(message).into())
}
