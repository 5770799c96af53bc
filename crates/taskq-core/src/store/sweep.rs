//! The leader's sweeps, as a store knows them.
//!
//! Every sweep is the same call: one bounded batch in a transaction of its own, which checks the leader, says how
//! far it came and whether more is left. Adding a sweep means a variant of [`Sweep`], its batch in each store, its
//! question in [`sweeps_due`](super::Store::sweeps_due), and its description among the worker's sweeps.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::{Count, LeaderEpoch, Reclaimed};
use crate::model::{JobId, Json, WorkerId};

/// One of the things that the leader does for everybody.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sweep {
    /// Makes due jobs ready.
    Promote,
    /// Declares workers lost whose lease has ended.
    MarkLost,
    /// Takes running jobs from lost workers. It has a call of its own, [`reclaim`](super::Store::reclaim).
    Reclaim,
    /// Fails jobs whose deadline has passed before they could start, or start again.
    Deadlines,
    /// Takes away results that are kept no longer; the stamp that says so stays.
    Results,
    /// Deletes events that are kept no longer.
    Events,
    /// Moves finished jobs to the archive whose hot period is over.
    Archive,
    /// Drops months of the archive that are kept no longer.
    ArchiveExpiry,
    /// Makes the stamps of finished jobs anew after a hot period has changed.
    Restamp,
    /// Deletes idempotency keys that have expired.
    IdempotencyKeys,
    /// Deletes workers that were lost long ago.
    Workers,
}

impl Sweep {
    /// Every sweep, in the order in which they are told.
    pub const ALL: [Self; 11] = [
        Self::Promote,
        Self::MarkLost,
        Self::Reclaim,
        Self::Deadlines,
        Self::Results,
        Self::Events,
        Self::Archive,
        Self::ArchiveExpiry,
        Self::Restamp,
        Self::IdempotencyKeys,
        Self::Workers,
    ];

    /// Returns the word that names it everywhere.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Promote => "promote",
            Self::MarkLost => "mark_lost",
            Self::Reclaim => "reclaim",
            Self::Deadlines => "deadlines",
            Self::Results => "results",
            Self::Events => "events",
            Self::Archive => "archive",
            Self::ArchiveExpiry => "archive_expiry",
            Self::Restamp => "restamp",
            Self::IdempotencyKeys => "idempotency_keys",
            Self::Workers => "workers",
        }
    }

    /// Finds the sweep that a word names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sweep| sweep.as_str() == word)
    }

    /// Returns the metric that counts the rows it has swept.
    pub const fn counter(self) -> &'static str {
        match self {
            Self::Promote => "taskq.swept.due_jobs",
            Self::MarkLost => "taskq.swept.ended_leases",
            Self::Reclaim => "taskq.swept.lost_jobs",
            Self::Deadlines => "taskq.swept.late_jobs",
            Self::Results => "taskq.swept.results",
            Self::Events => "taskq.swept.job_events",
            Self::Archive => "taskq.swept.finished_jobs",
            Self::ArchiveExpiry => "taskq.swept.archive_months",
            Self::Restamp => "taskq.swept.stamps",
            Self::IdempotencyKeys => "taskq.swept.idempotency_keys",
            Self::Workers => "taskq.swept.workers",
        }
    }
}

/// Where a sweep goes on: the place of a row in the order in which the sweep takes them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SweepKey {
    /// The time that the sweep goes by.
    pub at: Timestamp,
    /// What tells rows of the same time apart, as text; only the sweep itself can read it.
    pub id: String,
}

/// One batch of a sweep.
#[derive(Clone, Debug)]
pub struct SweepCall {
    /// The worker that leads.
    pub leader: WorkerId,
    /// The epoch it leads with.
    pub epoch: LeaderEpoch,
    /// The most rows; 1 to 100,000.
    pub limit: u32,
    /// How long the store may work on it before it gives the batch up with [`StoreError::TimedOut`]; `None` is as
    /// long as it likes.
    ///
    /// [`StoreError::TimedOut`]: super::StoreError::TimedOut
    pub timeout: Option<Duration>,
    /// Only what lies behind this key. What appears before it is not seen, so ask from the start now and then.
    pub after: Option<SweepKey>,
    /// How long rows are kept, instead of what the store's settings say. Only some sweeps keep rows for a time.
    pub period: Option<Duration>,
}

impl SweepCall {
    /// Makes a batch from the start, without a time limit.
    pub const fn new(leader: WorkerId, epoch: LeaderEpoch, limit: u32) -> Self {
        Self { leader, epoch, limit, timeout: None, after: None, period: None }
    }
}

/// What one batch of a sweep did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// The rows that it changed.
    pub rows: u64,
    /// The batch was full: there may be more behind `reached`.
    pub more: bool,
    /// How long until the next row behind `reached` is due, by the store's clock; zero when it is. `None` when there
    /// is none, or the sweep does not tell.
    pub due_in: Option<Duration>,
    /// The key of the last row that was looked at; where the batch began when there was none.
    pub reached: Option<SweepKey>,
    /// The rows that could not be changed and were passed over.
    pub problems: u64,
    /// Why, of the first of them.
    pub problem: Option<String>,
}

/// Where a question about a sweep begins.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum LookFrom {
    /// At the start of the sweep's order.
    #[default]
    Start,
    /// Where the last note says that the sweep had come; at the start when there is none.
    LastNote,
    /// Behind this key.
    After(SweepKey),
}

/// A question whether a sweep has anything to do.
#[derive(Clone, Debug)]
pub struct SweepProbe {
    /// The sweep.
    pub sweep: Sweep,
    /// Where to look.
    pub from: LookFrom,
    /// How long rows are kept, instead of what the store's settings say.
    pub period: Option<Duration>,
    /// The size of the sweep's batches, instead of what the store's settings say.
    pub batch: Option<u32>,
}

impl SweepProbe {
    /// Asks from the start.
    pub const fn new(sweep: Sweep) -> Self {
        Self { sweep, from: LookFrom::Start, period: None, batch: None }
    }
}

/// The answer for one sweep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SweepDue {
    /// The sweep.
    pub sweep: Sweep,
    /// How long until it has something to do, by the store's clock: zero when it has. `None` when nothing waits.
    pub due_in: Option<Duration>,
    /// How long what is oldest has waited for it; zero when nothing does.
    pub behind: Duration,
    /// Nothing lives before this time in the sweep's order, so it need not be looked for there; `None` where the sweep
    /// has no such order.
    pub clear_to: Option<Timestamp>,
    /// How long the store took to find out.
    pub took: Duration,
    /// The size of its batches, where a setting governs it.
    pub batch: Option<u32>,
    /// What is wrong with a setting of its; it does nothing until that is put right.
    pub problem: Option<String>,
}

impl SweepDue {
    /// Says whether the sweep has something to do now.
    pub fn is_now(&self) -> bool {
        self.problem.is_none() && self.due_in == Some(Duration::ZERO)
    }
}

/// What the leader writes down of a sweep, for everybody to see.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepNote {
    /// The sweep.
    pub sweep: Sweep,
    /// Its last run, if there was one since the last note.
    pub run: Option<SweepRun>,
    /// Its last error, if there was one since the last note.
    pub error: Option<SweepFailure>,
    /// The size of its next batch: less than usual after batches that took too long.
    pub batch: u32,
    /// How far it has come, for the next leader to go on from.
    pub reached: Option<SweepKey>,
    /// What its process sets instead of the store's settings, as a JSON object.
    pub overrides: Option<Json>,
}

/// A sweep's last run: the batches without a pause between them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SweepRun {
    /// How long ago it ended.
    pub ago: Duration,
    /// How long its batches took together.
    pub took: Duration,
    /// The rows it changed.
    pub rows: u64,
    /// The rows that all runs since the last note changed.
    pub rows_since: u64,
}

/// A sweep's last error.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepFailure {
    /// How long ago it was.
    pub ago: Duration,
    /// What went wrong.
    pub message: String,
}

/// How a sweep stands.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SweepSummary {
    /// The sweep.
    pub sweep: Sweep,
    /// When it last ran and changed something.
    pub last_run_at: Option<Timestamp>,
    /// How long that took, in seconds.
    #[serde(rename = "duration_s", serialize_with = "super::query::as_seconds")]
    pub duration: Option<Duration>,
    /// How many rows that changed.
    pub rows: u64,
    /// How many rows it has changed since the schema was made, by and large: what a leader did in the seconds before
    /// it died is not in it.
    pub swept: u64,
    /// The rows that wait for it now, behind the place that it had reached by its last note.
    pub backlog: Count,
    /// How long the oldest of them has waited, in seconds; zero when there is none.
    #[serde(rename = "behind_s", serialize_with = "super::query::in_seconds")]
    pub behind: Duration,
    /// The size of its batches, where it ran at all.
    pub batch: Option<u32>,
    /// Its last error.
    pub last_error: Option<String>,
    /// When that was. It is dealt with if the last run was later.
    pub last_error_at: Option<Timestamp>,
    /// What the leader's process sets instead of the store's settings.
    pub overrides: Option<Json>,
}

/// What a reclaim is told beside what every sweep is.
#[derive(Clone, Debug, Default)]
pub struct ReclaimOptions {
    /// When the store itself was away, if it was: who was lost that way burns no attempt.
    pub outage: Option<OutageSpan>,
    /// Jobs that are passed over.
    pub skip: Vec<JobId>,
}

/// When the store was away. A worker was lost that way whose lease ended after the beginning and that has not been heard
/// of since the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutageSpan {
    /// How long ago it began.
    pub began: Duration,
    /// How long ago it ended.
    pub ended: Duration,
}

/// What one batch of a reclaim did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReclaimBatch {
    /// The jobs that it looked at.
    pub jobs: Vec<Reclaimed>,
    /// Where the next batch goes on; `None` when every lost worker was looked at.
    pub reached: Option<SweepKey>,
}
