//! The bounds of what callers supply. Everything is checked before anything is written.

use std::time::Duration;

use jiff::Timestamp;

use super::super::{ActorChanges, MIN_HOT_PERIOD, PruneCall, Setting, StoreError};
use super::clock::whole_micros_of;
use crate::model::{
    JobId, Json, NewJob, OnFinished, Outcome, PAYLOAD_LIMIT, RESULT_LIMIT, Schedule, check_name,
};

/// The largest metadata, in bytes of its JSON text.
const METADATA_LIMIT: usize = 64 * 1024;
/// The most tags of one job.
const TAGS_LIMIT: usize = 64;
/// The longest delay: 100 years of 366 days.
const DELAY_LIMIT: Duration = Duration::from_hours(24 * 36_600);
/// The most job ids of one call.
const IDS_LIMIT: usize = 10_000;
/// The most rows that one batch of a sweep or an operator's verb changes.
const BATCH_LIMIT: u32 = 100_000;
/// The shortest lease.
const LEASE_LEAST: Duration = Duration::from_secs(1);
/// The longest lease.
const LEASE_LIMIT: Duration = Duration::from_hours(24);

/// What is wrong, if something is.
pub(crate) type Check = Result<(), String>;

/// Fails a call with what is wrong with one of its elements.
pub(super) fn element(index: usize, check: Check) -> Result<(), StoreError> {
    check.map_err(|message| StoreError::Invalid { index: Some(index), message })
}

/// Checks everything of a job but its deadline, which the scheduled time decides.
pub(crate) fn job(job: &NewJob) -> Check {
    document("payload", &job.payload, PAYLOAD_LIMIT)?;
    if let Some(metadata) = &job.metadata {
        document("metadata", metadata, METADATA_LIMIT)?;
        object("metadata", metadata)?;
    }
    if job.payload_version < 1 {
        return Err(format!("payload_version is {}, less than 1", job.payload_version));
    }
    if job.max_attempts < 1 {
        return Err(format!("max_attempts is {}, less than 1", job.max_attempts));
    }
    if job.start_to_close.is_some_and(|limit| whole_micros_of(limit).is_zero()) {
        return Err("start_to_close is not positive".to_owned());
    }
    match job.schedule {
        Schedule::Now => {}
        Schedule::After(duration) => delay(duration)?,
        Schedule::At(at) => time("scheduled_at", at)?,
    }
    if let Some(deadline) = job.schedule_to_close {
        time("schedule_to_close", deadline)?;
    }
    if let Some(policy) = &job.retry_policy {
        policy.validate().map_err(|problem| problem.to_string())?;
    }
    if job.tags.len() > TAGS_LIMIT {
        return Err(format!("tags has {} elements, more than {TAGS_LIMIT}", job.tags.len()));
    }
    for tag in &job.tags {
        check_name("tag", tag).map_err(|problem| problem.to_string())?;
    }
    if let Some(context) = &job.trace_context {
        check_name("trace_context", context).map_err(|problem| problem.to_string())?;
    }
    if job.on_finished == OnFinished::RunAgain && job.idempotency_key.is_none() {
        return Err("on_finished needs an idempotency_key".to_owned());
    }
    Ok(())
}

/// Checks what an outcome carries. Its error needs no check: it was cleaned when it was made.
pub(super) fn outcome(outcome: &Outcome) -> Check {
    match outcome {
        Outcome::Succeeded { result: Some(result) } => document("result", result, RESULT_LIMIT),
        Outcome::Failed { delay: Some(duration), .. } | Outcome::Snoozed { delay: duration } => {
            delay(*duration)
        }
        _ => Ok(()),
    }
}

/// Checks a lease.
pub(super) fn lease(what: &str, lease: Duration) -> Result<(), StoreError> {
    if lease < LEASE_LEAST {
        return Err(StoreError::invalid(format!("{what} is shorter than 1 second")));
    }
    if lease > LEASE_LIMIT {
        return Err(StoreError::invalid(format!("{what} is longer than 1 day")));
    }
    Ok(())
}

/// Checks how many jobs a call names.
pub(super) fn ids(ids: &[JobId]) -> Result<(), StoreError> {
    let count = ids.len();
    if count > IDS_LIMIT {
        return Err(StoreError::invalid(format!("{count} ids, more than {IDS_LIMIT}")));
    }
    Ok(())
}

/// Checks the bound of a batch.
pub(super) fn batch(limit: u32) -> Result<(), StoreError> {
    if !(1..=BATCH_LIMIT).contains(&limit) {
        return Err(StoreError::invalid(format!("limit is not between 1 and {BATCH_LIMIT}")));
    }
    Ok(())
}

/// Checks what is set for the whole store.
pub(super) fn setting(setting: Setting) -> Result<(), StoreError> {
    let problem = match setting {
        Setting::EventLevel(_) => return Ok(()),
        Setting::EventRetentionPeriod(span)
        | Setting::ResultTtl(span)
        | Setting::ArchiveRetentionPeriod(span) => {
            (span > DELAY_LIMIT).then_some("is longer than 36,600 days")
        }
        Setting::HotPeriod(span) | Setting::FailedHotPeriod(span) => hot_period_problem(span),
        Setting::EventRetentionBatchSize(size) => {
            (!(1..=BATCH_LIMIT).contains(&size)).then_some("is not a whole number from 1 to 100,000")
        }
    };
    problem
        .map_or(Ok(()), |problem| Err(StoreError::invalid(format!("setting {}: {problem}", setting.name()))))
}

/// Checks which jobs are to be deleted.
pub(super) fn prune(call: &PruneCall) -> Result<(), StoreError> {
    if call.older_than > DELAY_LIMIT {
        return Err(StoreError::invalid("older_than is not between 0 and 36,600 days"));
    }
    match call.jobs.statuses.iter().find(|status| !status.is_terminal()) {
        Some(status) => Err(StoreError::invalid(format!("jobs that are {status} have not ended"))),
        None => Ok(()),
    }
}

/// Checks what is set for an actor.
pub(super) fn actor_changes(changes: &ActorChanges) -> Result<(), StoreError> {
    let given = [("hot_period", changes.hot_period), ("failed_hot_period", changes.failed_hot_period)];
    for (name, change) in given {
        if let Some(problem) = change.flatten().and_then(hot_period_problem) {
            return Err(StoreError::invalid(format!("{name}: {problem}")));
        }
    }
    Ok(())
}

fn hot_period_problem(span: Duration) -> Option<&'static str> {
    if span < MIN_HOT_PERIOD {
        Some("is shorter than 1 minute")
    } else {
        (span > DELAY_LIMIT).then_some("is longer than 36,600 days")
    }
}

/// Checks that a document is an object.
pub(super) fn object(what: &str, value: &Json) -> Check {
    if value.as_str().trim_start().starts_with('{') {
        Ok(())
    } else {
        Err(format!("{what} is not an object"))
    }
}

fn document(what: &str, value: &Json, limit: usize) -> Check {
    let bytes = value.as_str().len();
    if bytes > limit { Err(format!("{what} has {bytes} bytes, more than {limit}")) } else { Ok(()) }
}

fn delay(delay: Duration) -> Check {
    if delay > DELAY_LIMIT { Err("delay is longer than 36,600 days".to_owned()) } else { Ok(()) }
}

fn time(what: &str, time: Timestamp) -> Check {
    /// The start of year 1, in seconds of the Unix epoch. A later end needs no check: the type ends there.
    const YEAR_1: i64 = -62_135_596_800;
    if time.as_second() < YEAR_1 { Err(format!("{what} lies before year 1")) } else { Ok(()) }
}
