//! Jobs that are claimed and wait for a slot, a line for each queue.
//!
//! They are leased like those that run, and so few that they start at once as slots turn over. What is still here after
//! [`PATIENCE`] ticks goes back: another worker may have a slot for it.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::Key;
use super::pace::Pace;
use crate::model::{ClaimedJob, Json};

/// How many ticks a job waits at most. Counted, not measured, so that a process that was stopped for a while does not
/// give back what it can start now.
pub(super) const PATIENCE: u64 = 5;
/// The most bytes of jobs that are claimed ahead, all queues together, as far as the sizes of earlier ones can tell.
const BYTES_LIMIT: usize = 8 * 1024 * 1024;

/// A job that waits for a slot.
pub(in crate::worker) struct Waiter {
    pub(in crate::worker) job: ClaimedJob,
    /// When it is too late to start it.
    pub(in crate::worker) closes: Option<Instant>,
}

/// The jobs of a queue that wait for a slot, in the order of their claims.
#[derive(Default)]
pub(super) struct Line {
    jobs: VecDeque<(Waiter, u64)>,
    bytes: usize,
    /// How large a job was on the average at the last claim.
    mean_bytes: usize,
    /// Slots that are taken for jobs that still stand here.
    calling: u32,
    /// The length at which the claimer wants to be told.
    low: Option<usize>,
    pub(super) pace: Pace,
}

/// How many jobs a claim may ask for.
pub(super) struct Need {
    /// Slots of the queue.
    pub(super) slots: u32,
    /// Slots that are free.
    pub(super) free: u32,
    /// Bytes of jobs that wait in all queues.
    pub(super) bytes: usize,
    pub(super) now: Instant,
}

impl Line {
    /// Lets a claim's jobs wait, in their order.
    pub(super) fn extend(&mut self, jobs: Vec<Waiter>, tick: u64) {
        if jobs.is_empty() {
            return;
        }
        let sizes: usize = jobs.iter().map(|waiter| bytes(&waiter.job)).sum();
        self.mean_bytes = sizes / jobs.len();
        self.bytes += sizes;
        self.jobs.extend(jobs.into_iter().map(|waiter| (waiter, tick)));
    }

    /// Takes slots for the jobs that wait, at most `free`; returns how many. Each has to [`pop`](Self::pop).
    pub(super) fn call(&mut self, free: u32) -> u32 {
        let uncalled = self.len32().saturating_sub(self.calling);
        let slots = uncalled.min(free);
        self.calling += slots;
        slots
    }

    /// Notes that a slot that was taken asks now, or never will.
    pub(super) fn answered(&mut self) {
        self.calling -= 1;
    }

    /// Takes the first job. Says as well whether the claimer wants to be told.
    pub(super) fn pop(&mut self) -> Option<(Waiter, bool)> {
        let (waiter, _) = self.jobs.pop_front()?;
        self.bytes -= bytes(&waiter.job);
        let low = self.low.is_some_and(|low| self.jobs.len() <= low);
        if low {
            self.low = None;
        }
        Some((waiter, low))
    }

    /// Takes a job out of the line, wherever it stands.
    pub(super) fn remove(&mut self, key: Key) {
        if let Some(at) = self.jobs.iter().position(|(waiter, _)| waiter.key() == key)
            && let Some((waiter, _)) = self.jobs.remove(at)
        {
            self.bytes -= bytes(&waiter.job);
        }
    }

    /// Takes out every job that has waited too long and that no slot was taken for.
    pub(super) fn take_overdue(&mut self, tick: u64) -> Vec<Key> {
        let called = usize::try_from(self.calling).unwrap_or(usize::MAX).min(self.jobs.len());
        let overdue = self.jobs.range(called..).take_while(|(_, came)| came + PATIENCE <= tick).count();
        let taken: Vec<_> = self
            .jobs
            .drain(called..called + overdue)
            .map(|(waiter, _)| (waiter.key(), bytes(&waiter.job)))
            .collect();
        self.bytes -= taken.iter().map(|(_, bytes)| bytes).sum::<usize>();
        taken.into_iter().map(|(key, _)| key).collect()
    }

    /// Takes out every job.
    pub(super) fn clear(&mut self) -> Vec<Key> {
        self.bytes = 0;
        self.low = None;
        self.jobs.drain(..).map(|(waiter, _)| waiter.key()).collect()
    }

    /// Says how many jobs a claim shall ask for now. While enough wait none is asked for, and the claimer is told once
    /// that has changed: few large claims cost less than many small ones.
    pub(super) fn need(&mut self, need: &Need) -> u32 {
        let idle = need.free + self.calling;
        let by_bytes = BYTES_LIMIT.saturating_sub(need.bytes) / self.mean_bytes.max(1);
        let by_bytes = u32::try_from(by_bytes).unwrap_or(u32::MAX);
        let waiting = self.len32();
        let ahead = self.pace.ahead(need.slots, need.now).min(by_bytes.saturating_add(waiting));
        let wanted = (idle + ahead).saturating_sub(waiting);
        let enough = ahead / 2;
        if waiting < idle || wanted > enough {
            self.low = None;
            return wanted;
        }
        // Where more than half of what is claimed ahead has gone.
        let low = (idle + ahead).checked_sub(enough + 1);
        self.low = low.filter(|_| ahead > 0).and_then(|low| usize::try_from(low).ok());
        0
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn len32(&self) -> u32 {
        u32::try_from(self.jobs.len()).unwrap_or(u32::MAX)
    }
}

impl Waiter {
    pub(in crate::worker) fn key(&self) -> Key {
        (self.job.id, self.job.epoch)
    }
}

fn bytes(job: &ClaimedJob) -> usize {
    let metadata = job.metadata.as_ref().map_or(0, |json: &Json| json.as_str().len());
    let tags: usize = job.tags.iter().map(String::len).sum();
    job.payload.as_str().len() + metadata + tags
}
