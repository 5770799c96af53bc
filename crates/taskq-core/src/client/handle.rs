//! A job that was enqueued.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use super::{Absence, Client, Job, WaitError, WakeToken};
use crate::model::{EnqueueOutcome, JobId, Keep, Status};
use crate::store::{CancelOutcome, Ending, StoreError, Wake};

/// A job that was enqueued. Cheap to clone; dropping it leaves the job alone.
pub struct JobHandle<J> {
    id: JobId,
    outcome: Option<EnqueueOutcome>,
    keep: Keep,
    /// Who is still to be told of it.
    owed: Option<Wake>,
    client: Client,
    marker: PhantomData<fn() -> J>,
}

impl<J: Job> JobHandle<J> {
    /// Makes the handle of a job that was enqueued elsewhere.
    pub(super) fn of(client: Client, id: JobId) -> Self {
        Self { id, outcome: None, keep: J::KEEP, owed: None, client, marker: PhantomData }
    }

    pub(super) fn enqueued(
        client: Client,
        id: JobId,
        outcome: EnqueueOutcome,
        keep: Keep,
        owed: Option<Wake>,
    ) -> Self {
        Self { id, outcome: Some(outcome), keep, owed, client, marker: PhantomData }
    }

    /// Returns the job's id.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// Says whether the enqueue wrote the job, or found it under its idempotency key; `None` when the handle was made of
    /// an id.
    pub fn outcome(&self) -> Option<EnqueueOutcome> {
        self.outcome
    }

    /// Returns the token that tells the workers of the job, where the enqueue did not
    /// ([`Notify::None`](crate::model::Notify::None)): to be fired once the job is committed. Else it does nothing.
    pub fn wake_token(&self) -> WakeToken {
        WakeToken::new(self.client.clone(), self.owed.clone())
    }

    /// Cancels the job: see [`Client::cancel`].
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be reached: it may have been done all the same, and can be repeated.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether it is done; it can be repeated.
    pub async fn cancel(&self) -> Result<CancelOutcome, StoreError> {
        let answers = self.client.cancel([self.id], None).await?;
        let answer = answers.first().map(|answer| answer.outcome);
        answer.ok_or_else(|| StoreError::Answer {
            message: "a cancellation of one job got no answer".to_owned(),
        })
    }

    /// Waits until the job has ended and returns what its handler returned.
    ///
    /// All waits of a client share one poll of the store. A wait is looked at when it begins, then every 2 ms, and
    /// ever more rarely as it grows older: after a quarter of its age, at the latest every 500 ms. A store that
    /// cannot be reached is asked again, without end: see [`wait_timeout`](Self::wait_timeout).
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    ///
    /// # Errors
    /// [`WaitError`] says how the job ended otherwise.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait(&self) -> Result<J::Output, WaitError> {
        self.wait_for(None).await
    }

    /// Waits like [`wait`](Self::wait), for at most `timeout`.
    ///
    /// # Errors
    /// [`WaitError::Timeout`] when the job has not ended by then; it goes on.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_timeout(&self, timeout: Duration) -> Result<J::Output, WaitError> {
        self.wait_for(Some(timeout)).await
    }

    /// Asks where the job stands.
    ///
    /// # Errors
    /// [`WaitError::Absent`] when there is no such job, [`WaitError::Store`] when the store cannot answer.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn status(&self) -> Result<Status, WaitError> {
        self.client.status(self.id).await.map_err(|error| self.told(error))
    }

    async fn wait_for(&self, timeout: Option<Duration>) -> Result<J::Output, WaitError> {
        let ending = self.client.wait_for(self.id, timeout).await.map_err(|error| self.told(error))?;
        output::<J>(&ending)
    }

    /// Says of a job that is not there what the handle knows better.
    fn told(&self, error: WaitError) -> WaitError {
        match error {
            WaitError::Absent(Absence::NeverExisted) if self.keep == Keep::None => {
                WaitError::Absent(Absence::NotKept)
            }
            other => other,
        }
    }
}

fn output<J: Job>(ending: &Ending) -> Result<J::Output, WaitError> {
    let error = ending.error.clone();
    match ending.status {
        // A handler that returns nothing is recorded without a result, and nothing is `null`.
        Status::Succeeded => match &ending.result {
            Some(result) => result.parse(),
            None => serde_json::from_str("null"),
        }
        .map_err(WaitError::Output),
        Status::Cancelled => Err(WaitError::Cancelled { error }),
        Status::Crashed => Err(WaitError::Crashed { error }),
        Status::Abandoned => Err(WaitError::Abandoned { error }),
        Status::Failed | Status::Scheduled | Status::Blocked | Status::Pending | Status::Running => {
            Err(WaitError::Failed { error })
        }
    }
}

impl<J> Clone for JobHandle<J> {
    fn clone(&self) -> Self {
        Self {
            id: self.id,
            outcome: self.outcome,
            keep: self.keep,
            owed: self.owed.clone(),
            client: self.client.clone(),
            marker: PhantomData,
        }
    }
}

impl<J> fmt::Debug for JobHandle<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobHandle").field("id", &self.id).finish_non_exhaustive()
    }
}
