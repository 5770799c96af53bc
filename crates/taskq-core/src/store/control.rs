//! What operators and the leader do to jobs.

use std::time::Duration;

use serde::Serialize;

use crate::model::{ActorName, Epoch, JobId, QueueName, Status};

/// A queue or an actor, as something that can be paused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LanePart {
    /// Every job of the queue.
    Queue(QueueName),
    /// Every job of the actor, whatever its queue.
    Actor(ActorName),
}

/// What one call that set a queue's mode did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueSet {
    /// Whether the mode was another before.
    pub changed: bool,
    /// Ready jobs with a cohort that were merged into their actors' lanes.
    pub merged: u64,
    /// There are more of them: call again.
    pub more: bool,
}

/// Which jobs an operator means. Every field narrows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JobMatch {
    /// Any of these statuses; empty means any at all.
    pub statuses: Vec<Status>,
    /// Only this queue.
    pub queue: Option<QueueName>,
    /// Only this actor.
    pub actor: Option<ActorName>,
    /// Only jobs that carry this tag.
    pub tag: Option<String>,
}

/// What a cancellation did to one job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelOutcome {
    /// It had not started and has ended now.
    Cancelled,
    /// It runs; its worker is told.
    Requested,
    /// It had ended already; nothing was done.
    Finished,
    /// There is no such job.
    NotFound,
}

impl CancelOutcome {
    /// Finds the outcome that a word names.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "cancelled" => Some(Self::Cancelled),
            "requested" => Some(Self::Requested),
            "finished" => Some(Self::Finished),
            "not_found" => Some(Self::NotFound),
            _ => None,
        }
    }
}

/// The answer to the cancellation of one job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Cancelled {
    /// The job.
    pub id: JobId,
    /// What was done.
    pub outcome: CancelOutcome,
    /// Its status now; `None` when there is no such job.
    pub status: Option<Status>,
}

/// What one batch of a cancellation by filter did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CancelledBatch {
    /// Jobs that had not started and have ended now.
    pub cancelled: u64,
    /// Jobs that run and whose workers were told.
    pub requested: u64,
    /// Where the next batch goes on; `None` at the end.
    pub scanned_to: Option<JobId>,
}

/// What an operator's retry did to one job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryOutcome {
    /// It is ready again.
    Retried,
    /// It has not ended; nothing was done.
    Unfinished,
    /// There is no such job.
    NotFound,
}

impl RetryOutcome {
    /// Finds the outcome that a word names.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "retried" => Some(Self::Retried),
            "unfinished" => Some(Self::Unfinished),
            "not_found" => Some(Self::NotFound),
            _ => None,
        }
    }
}

/// The answer to the retry of one job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Retried {
    /// The job.
    pub id: JobId,
    /// What was done.
    pub outcome: RetryOutcome,
    /// Its status now; `None` when there is no such job.
    pub status: Option<Status>,
}

/// What one batch of a retry by filter did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetriedBatch {
    /// Jobs that are ready again.
    pub retried: u64,
    /// Where the next batch goes on; `None` at the end.
    pub scanned_to: Option<JobId>,
}

/// Which ended jobs are to be deleted.
#[derive(Clone, Debug)]
pub struct PruneCall {
    /// Which jobs. Only statuses of jobs that have ended can be named.
    pub jobs: JobMatch,
    /// How long ago they ended, at least; at most 36,600 days.
    pub older_than: Duration,
    /// The most jobs; ten times as many are looked at.
    pub limit: u32,
    /// Only ids behind this one.
    pub after: Option<JobId>,
    /// Whether they are deleted or only counted.
    pub mode: PruneMode,
}

/// Whether jobs are deleted or only counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PruneMode {
    /// Nothing is changed.
    Count,
    /// They are gone for good, and their attempts with them.
    Delete,
}

/// What one batch of a prune did, or would do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrunedBatch {
    /// The jobs.
    pub pruned: u64,
    /// How many of them were archived.
    pub archived: u64,
    /// Where the next batch goes on; `None` at the end.
    pub scanned_to: Option<JobId>,
}

/// What a reclaim did with one job of a lost worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reclaimed {
    /// The job.
    pub id: JobId,
    /// The attempt that was lost.
    pub epoch: Epoch,
    /// Its status now.
    pub status: Status,
    /// Why it could not be moved; `None` when it was.
    pub problem: Option<String>,
}
