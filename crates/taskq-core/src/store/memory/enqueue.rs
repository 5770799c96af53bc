//! `enqueue`.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::super::StoreError;
use super::clock::{later, whole_micros, whole_micros_of};
use super::keys::KeyTaken;
use super::state::State;
use super::validate;
use crate::model::{
    EnqueueOutcome, Enqueued, Epoch, EventLevel, JobId, JobRecord, NewJob, RetryPolicy, Schedule, Status,
};

impl State {
    pub(super) fn enqueue(&mut self, now: Timestamp, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        for (index, job) in jobs.iter().enumerate() {
            validate::element(
                index,
                validate::job(job).and_then(|()| self.check_fairness(job)).and_then(|()| deadline(now, job)),
            )?;
        }
        Ok(jobs.into_iter().map(|job| self.enqueue_one(now, job)).collect())
    }

    fn enqueue_one(&mut self, now: Timestamp, job: NewJob) -> Enqueued {
        let outcome = match self.take_key(now, &job) {
            KeyTaken::Free => EnqueueOutcome::Created,
            KeyTaken::Over => EnqueueOutcome::Replaced,
            KeyTaken::By(id) => return self.existing(id),
        };
        if self.record(job.id).is_some() {
            return self.existing(job.id);
        }
        let notify = job.notify;
        let record = record(now, job);
        let enqueued = Enqueued { id: record.id, outcome, status: Some(record.status) };
        let id = record.id;
        self.insert(record, notify);
        self.tell_at(EventLevel::All, now, id, "enqueued", &Value::Null);
        enqueued
    }

    fn existing(&self, id: JobId) -> Enqueued {
        let status = self.record(id).map(|job| job.status);
        Enqueued { id, outcome: EnqueueOutcome::Existing, status }
    }
}

/// A deadline must lie behind the time at which the job becomes ready.
fn deadline(now: Timestamp, job: &NewJob) -> validate::Check {
    match job.schedule_to_close {
        Some(deadline) if whole_micros(deadline) <= scheduled_at(now, job.schedule) => {
            Err("schedule_to_close is not later than the scheduled time".to_owned())
        }
        _ => Ok(()),
    }
}

fn scheduled_at(now: Timestamp, schedule: Schedule) -> Timestamp {
    match schedule {
        Schedule::Now => now,
        Schedule::After(delay) => later(now, delay),
        // A time that has passed stays as it is: it decides the order among the ready.
        Schedule::At(time) => whole_micros(time),
    }
}

fn record(now: Timestamp, job: NewJob) -> JobRecord {
    let scheduled_at = scheduled_at(now, job.schedule);
    JobRecord {
        id: job.id,
        queue: job.queue,
        actor: job.actor,
        status: if scheduled_at > now { Status::Scheduled } else { Status::Pending },
        priority: job.priority,
        attempt: 0,
        max_attempts: job.max_attempts,
        epoch: Epoch(0),
        payload: job.payload,
        payload_version: job.payload_version,
        created_at: now,
        scheduled_at,
        started_at: None,
        finished_at: None,
        archived_at: None,
        worker: None,
        cancel_requested: false,
        schedule_to_close: job.schedule_to_close.map(whole_micros),
        start_to_close: job.start_to_close.map(whole_micros_of),
        retry_policy: job.retry_policy.map(stored_policy),
        fairness_key: job.fairness_key,
        error: None,
        result: None,
        result_expires_at: None,
        progress: None,
        tags: job.tags,
        metadata: job.metadata,
        trace_context: job.trace_context,
        keep: job.keep,
    }
}

fn stored_policy(policy: RetryPolicy) -> RetryPolicy {
    let stored: fn(Duration) -> Duration = whole_micros_of;
    RetryPolicy { base: stored(policy.base), cap: stored(policy.cap), ..policy }
}
