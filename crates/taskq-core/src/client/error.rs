//! Why an enqueue or a wait fails.

use std::sync::Arc;

use crate::model::{ErrorRecord, IdempotencyKey, InvalidName, JobId, JsonError, Status};
use crate::store::StoreError;

/// Why nothing was enqueued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The payload does not serialise, holds what JSON or PostgreSQL cannot store, or is larger than 1 MiB.
    #[error("the payload cannot be enqueued")]
    Payload(#[source] JsonError),
    /// The metadata does not serialise, holds what JSON or PostgreSQL cannot store, or is larger than 64 KiB.
    #[error("the metadata cannot be enqueued")]
    Metadata(#[source] JsonError),
    /// The queue's or the actor's name, or a key, is not a name.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// It was said what a finished job of the idempotency key means, and there is no key.
    #[error(
        "`on_finished` says what an idempotency key means, and there is none: add `.idempotency_key(key)`"
    )]
    NoKey,
    /// One job of several has an idempotency key, and it was not said what a finished job of that key means: it cannot
    /// fail by itself.
    #[error(
        "of several jobs in one call, each with an idempotency key needs `.on_finished(…)`: say what is wanted when the \
         job of the key has ended"
    )]
    NotSaid,
    /// The idempotency key belongs to a job that has ended; nothing was written, and nothing will run. With
    /// [`on_finished`](super::Enqueue::on_finished) this is no error.
    #[error(
        "the idempotency key belongs to the job {id}, which has ended{}: say `.on_finished(…)`, or choose another key",
        as_status(*status)
    )]
    AlreadyFinished {
        /// That job.
        id: JobId,
        /// How it ended; `None` when it is not there any more, though its key still stands.
        status: Option<Status>,
    },
    /// Another enqueue of the same idempotency key, or a store that hardly answers, did not let this one through in
    /// 5 s. It may have been written all the same; the key makes it safe to repeat.
    #[error("the enqueue with the idempotency key \"{key}\" did not get through in time: repeat it")]
    Busy {
        /// The key.
        key: IdempotencyKey,
    },
    /// One job of several is refused, and with it the whole call.
    #[error("job {index} of the call is refused")]
    Element {
        /// Which one, from 0.
        index: usize,
        /// Why.
        #[source]
        error: Box<EnqueueError>,
    },
    /// The store refused the job ([`StoreError::Invalid`] says what is out of bounds), or could not be
    /// reached twice in a row: then the job may have been written all the same.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl EnqueueError {
    /// Says whether the caller's input is at fault, so that the same call fails again.
    pub fn is_invalid_input(&self) -> bool {
        match self {
            Self::Payload(_) | Self::Metadata(_) | Self::Name(_) | Self::NoKey | Self::NotSaid => true,
            Self::AlreadyFinished { .. } | Self::Busy { .. } => false,
            Self::Element { error, .. } => error.is_invalid_input(),
            Self::Store(error) => {
                matches!(error, StoreError::Invalid { .. } | StoreError::Unsupported { .. })
            }
        }
    }

    /// Names the element that a refusal of the store is about.
    pub(super) fn of_many(error: StoreError) -> Self {
        match error {
            StoreError::Invalid { index: Some(index), message } => {
                let error = Self::Store(StoreError::Invalid { index: None, message });
                Self::Element { index, error: Box::new(error) }
            }
            StoreError::Unsupported { index: Some(index), message } => {
                let error = Self::Store(StoreError::Unsupported { index: None, message });
                Self::Element { index, error: Box::new(error) }
            }
            other => Self::Store(other),
        }
    }
}

/// Why waiting for a job gave no output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The job is not there.
    #[error("the job is not there: {0}")]
    Absent(Absence),
    /// The job failed for good.
    #[error("the job failed{}", said(error.as_ref()))]
    Failed {
        /// Its last error.
        error: Option<ErrorRecord>,
    },
    /// The job was cancelled.
    #[error("the job was cancelled{}", said(error.as_ref()))]
    Cancelled {
        /// Why, if that was recorded.
        error: Option<ErrorRecord>,
    },
    /// The workers that ran the job died, and its attempts are spent.
    #[error("the job crashed{}", said(error.as_ref()))]
    Crashed {
        /// Its last error.
        error: Option<ErrorRecord>,
    },
    /// The job was cancelled by force and its handler never returned.
    #[error("the job was abandoned{}", said(error.as_ref()))]
    Abandoned {
        /// Its last error.
        error: Option<ErrorRecord>,
    },
    /// The job succeeded, but its result is not of the job's output type.
    #[error("the result of the job does not fit its output type")]
    Output(#[source] serde_json::Error),
    /// The job had not ended in time. It goes on.
    #[error("the job has not ended in time")]
    Timeout,
    /// The store refused to answer. An unreachable store is no error but asked again.
    #[error("the store cannot say how the job stands")]
    Store(#[source] Arc<StoreError>),
}

/// Why a job is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Absence {
    /// No job of this id was ever committed; the transaction that enqueues it may still be open.
    #[error("it never existed, or its transaction is not committed")]
    NeverExisted,
    /// It ended so long ago that only the archive has it, without what was asked for.
    #[error("it has ended and was archived")]
    Archived,
    /// It keeps nothing ([`Keep::None`](crate::model::Keep::None)): it has succeeded and was deleted with that, unless its
    /// transaction is not committed. What its handler returned is gone.
    #[error("it keeps nothing and has succeeded, or its transaction is not committed")]
    NotKept,
}

fn as_status(status: Option<Status>) -> String {
    status.map(|status| format!(" as {}", status.as_str())).unwrap_or_default()
}

fn said(error: Option<&ErrorRecord>) -> String {
    error.map(|error| format!(": {}", error.message)).unwrap_or_default()
}
