//! What became of an attempt.

use std::time::Duration;

use super::{Epoch, ErrorRecord, JobId, Json, Status};

/// What became of one attempt, as its worker reports it.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The handler returned a result.
    Succeeded {
        /// Its output, or nothing.
        result: Option<Json>,
    },
    /// The handler failed. The job is tried again while attempts are left.
    Failed {
        /// What went wrong.
        error: ErrorRecord,
        /// Tried again after this delay instead of the policy's, without burning an attempt.
        delay: Option<Duration>,
        /// Ends the job although attempts are left.
        is_final: bool,
    },
    /// The handler asked to run again later. Burns no attempt.
    Snoozed {
        /// How much later.
        delay: Duration,
    },
    /// The worker gives the job back unfinished, as at shutdown. Burns no attempt.
    Released,
    /// The handler did not end in time when it was forced to. Never tried again.
    Abandoned {
        /// What was waited for.
        error: ErrorRecord,
    },
    /// The handler ended the job as cancelled.
    Cancelled {
        /// Why, if it said so.
        error: Option<ErrorRecord>,
    },
}

/// The word of an [`Outcome`], without what it carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OutcomeKind {
    /// `succeeded`
    Succeeded,
    /// `failed`
    Failed,
    /// `snoozed`
    Snoozed,
    /// `released`
    Released,
    /// `cancelled`
    Cancelled,
    /// `abandoned`
    Abandoned,
    /// `crashed`: written by the leader, never by a worker.
    Crashed,
}

impl OutcomeKind {
    /// Returns the word used in SQL and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Snoozed => "snoozed",
            Self::Released => "released",
            Self::Cancelled => "cancelled",
            Self::Abandoned => "abandoned",
            Self::Crashed => "crashed",
        }
    }

    /// Finds the kind that a word names.
    pub fn from_word(word: &str) -> Option<Self> {
        [
            Self::Succeeded,
            Self::Failed,
            Self::Snoozed,
            Self::Released,
            Self::Cancelled,
            Self::Abandoned,
            Self::Crashed,
        ]
        .into_iter()
        .find(|kind| kind.as_str() == word)
    }
}

impl Outcome {
    /// Returns the outcome's word.
    pub const fn kind(&self) -> OutcomeKind {
        match self {
            Self::Succeeded { .. } => OutcomeKind::Succeeded,
            Self::Failed { .. } => OutcomeKind::Failed,
            Self::Snoozed { .. } => OutcomeKind::Snoozed,
            Self::Released => OutcomeKind::Released,
            Self::Cancelled { .. } => OutcomeKind::Cancelled,
            Self::Abandoned { .. } => OutcomeKind::Abandoned,
        }
    }
}

/// An outcome of one attempt on its way to the store.
#[derive(Clone, PartialEq, Debug)]
pub struct Settlement {
    /// The job.
    pub id: JobId,
    /// The attempt: the fence against every other attempt of the job.
    pub epoch: Epoch,
    /// What became of it.
    pub outcome: Outcome,
}

/// What the store did with a settlement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettleReason {
    /// It was recorded.
    Applied,
    /// This epoch had already recorded this outcome: done, as after a lost acknowledgement.
    Repeated,
    /// Another attempt owns the job, or the worker's lease has ended: nothing changed.
    Stale,
    /// There is no such job: nothing changed.
    Gone,
}

impl SettleReason {
    /// Returns the word used in SQL and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Repeated => "repeated",
            Self::Stale => "stale",
            Self::Gone => "gone",
        }
    }

    /// Finds the reason that a word names.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Applied, Self::Repeated, Self::Stale, Self::Gone]
            .into_iter()
            .find(|reason| reason.as_str() == word)
    }
}

/// The store's answer to one [`Settlement`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settled {
    /// The job.
    pub id: JobId,
    /// What was done.
    pub reason: SettleReason,
    /// The job's status afterwards; `None` when there is no such job.
    pub status: Option<Status>,
}
