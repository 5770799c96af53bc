//! Many jobs of one type in one call.

use std::borrow::Borrow;
use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde::Serialize;

use super::prepared::{Slip, handles};
use super::{Enqueue, METADATA_LIMIT, PreparedMany, element, new_job, settings};
use crate::client::{Client, EnqueueError, Job, JobHandle};
use crate::model::{FairnessKey, Json, Keep, NewJob, Notify, QueueName, RetryPolicy, Schedule};

/// Jobs about to be enqueued in one call, all of them or, when one is refused, none: await it, after changing what
/// shall be different for every one of them.
///
/// A call whose answer is lost is repeated once. Fails with [`EnqueueError::Element`], which names the first job that is
/// refused. The handles come in the order of the jobs.
///
/// # Cancel safety
/// Dropping the future before it is done leaves it open whether the jobs are written.
#[must_use = "jobs are enqueued only when this is awaited"]
pub struct EnqueueMany<J> {
    client: Client,
    jobs: Result<Vec<NewJob>, EnqueueError>,
    marker: PhantomData<fn() -> J>,
}

impl<J: Job> EnqueueMany<J> {
    pub(in crate::client) fn new(client: Client, jobs: impl IntoIterator<Item = impl Borrow<J>>) -> Self {
        let one = |(index, job): (usize, _)| new_job::<J>(Borrow::borrow(&job)).map_err(element(index));
        let jobs = jobs.into_iter().enumerate().map(one).collect();
        Self { client, jobs, marker: PhantomData }
    }

    pub(in crate::client) fn of_prepared(client: Client, jobs: impl IntoIterator<Item = Enqueue<J>>) -> Self {
        let one = |(index, job): (usize, Enqueue<J>)| {
            let keyed_only = job.on_finished.is_none();
            let job = job.into_new_job().map_err(element(index))?;
            if keyed_only && job.idempotency_key.is_some() {
                return Err(element(index)(EnqueueError::NotSaid));
            }
            Ok(job)
        };
        let jobs = jobs.into_iter().enumerate().map(one).collect();
        Self { client, jobs, marker: PhantomData }
    }

    settings::methods!();

    /// Returns the jobs as the store would receive them, for those who write them themselves.
    ///
    /// # Errors
    /// [`EnqueueError::Element`] names the first job that is refused.
    pub fn into_new_jobs(self) -> Result<Vec<NewJob>, EnqueueError> {
        self.jobs
    }

    /// Checks every bound that can be checked without the store, and prepares the jobs for whoever writes them in a
    /// transaction of their own.
    ///
    /// # Errors
    /// [`EnqueueError::Element`] names the first job that is refused.
    pub fn prepare(self) -> Result<PreparedMany<J>, EnqueueError> {
        PreparedMany::checked(self.client, self.jobs?)
    }

    fn change(mut self, change: impl Fn(&mut NewJob)) -> Self {
        if let Ok(jobs) = &mut self.jobs {
            jobs.iter_mut().for_each(change);
        }
        self
    }

    fn try_change(mut self, change: impl Fn(&mut NewJob) -> Result<(), EnqueueError>) -> Self {
        if let Ok(jobs) = &mut self.jobs
            && let Err(error) = jobs.iter_mut().try_for_each(change)
        {
            self.jobs = Err(error);
        }
        self
    }
}

impl<J: Job> IntoFuture for EnqueueMany<J> {
    type Output = Result<Vec<JobHandle<J>>, EnqueueError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let jobs = self.jobs?;
            let slips: Vec<_> = jobs.iter().map(Slip::of).collect();
            let answers = self.client.write(jobs).await?;
            handles(&self.client, slips.into_iter(), &answers)
        })
    }
}

impl<J> fmt::Debug for EnqueueMany<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnqueueMany").field("jobs", &self.jobs).finish_non_exhaustive()
    }
}
