//! The JSON documents of the protocol.

use std::borrow::Borrow;

use jiff::Timestamp;
use serde::Serialize;
use serde::ser::SerializeSeq;
pub(super) use taskq_core::model::Notify;
use taskq_core::model::{
    Epoch, ErrorRecord, IdempotencyKey, JobId, Json, Keep, NewJob, OnFinished, Outcome, RetryPolicy,
    Schedule, Settlement,
};
use taskq_core::store::{Progress, StoreError};

use crate::codec::{JsonbText, interval_text};

/// The largest document that one call may carry: PostgreSQL's own limit for the elements of an array.
const LIMIT: usize = 255 * 1024 * 1024;

#[derive(Serialize)]
struct JobDocument<'a> {
    id: JobId,
    queue: &'a str,
    actor: &'a str,
    payload: &'a Json,
    payload_version: i32,
    priority: i16,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule_to_close: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_to_close: Option<String>,
    max_attempts: i16,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_policy: Option<&'a RetryPolicy>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_context: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_finished: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notify: Option<&'static str>,
}

/// Writes the documents of `enqueue_many`.
pub(crate) fn of_jobs<N: Borrow<NewJob>>(jobs: &[(N, Notify)]) -> Result<JsonbText, StoreError> {
    let jobs = jobs.iter().map(|(job, notify)| (job.borrow(), notify));
    for (index, (job, _)) in jobs.clone().enumerate() {
        // The server could not even parse the document, and would not say which one it was.
        let mut texts = job.tags.iter().chain(&job.trace_context);
        if texts.any(|text| text.contains('\0')) {
            let message = format!("element {index}: a tag or the trace context contains a control character");
            return Err(StoreError::Invalid { index: Some(index), message });
        }
        // In a document, null means that nothing was said; here it was said.
        if job.metadata.as_ref().is_some_and(|metadata| metadata.as_str().trim() == "null") {
            let message = format!("element {index}: metadata is a JSON null, not an object");
            return Err(StoreError::Invalid { index: Some(index), message });
        }
    }
    write(jobs.map(|(job, notify)| JobDocument {
        id: job.id,
        queue: job.queue.as_str(),
        actor: job.actor.as_str(),
        payload: &job.payload,
        payload_version: job.payload_version,
        priority: job.priority,
        scheduled_at: match job.schedule {
            Schedule::At(time) => Some(time_text(time)),
            Schedule::Now | Schedule::After(_) => None,
        },
        delay: match job.schedule {
            Schedule::After(delay) => Some(interval_text(delay)),
            Schedule::Now | Schedule::At(_) => None,
        },
        schedule_to_close: job.schedule_to_close.map(time_text),
        start_to_close: job.start_to_close.map(interval_text),
        max_attempts: job.max_attempts,
        retry_policy: job.retry_policy.as_ref(),
        tags: &job.tags,
        metadata: job.metadata.as_ref(),
        trace_context: job.trace_context.as_deref(),
        idempotency_key: job.idempotency_key.as_ref().map(IdempotencyKey::as_str),
        on_finished: (job.on_finished == OnFinished::RunAgain).then_some("run_again"),
        keep: (job.keep == Keep::None).then_some("none"),
        notify: (*notify == Notify::None || job.notify == Notify::None).then_some("none"),
    }))
}

#[derive(Serialize)]
struct OutcomeDocument<'a> {
    id: JobId,
    epoch: Epoch,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    #[serde(rename = "final", skip_serializing_if = "std::ops::Not::not")]
    is_final: bool,
}

/// Writes the documents of `settle`.
pub(super) fn of_settlements(settlements: &[Settlement]) -> Result<JsonbText, StoreError> {
    let mut documents = Vec::with_capacity(settlements.len());
    for (index, settlement) in settlements.iter().enumerate() {
        let mut document = OutcomeDocument {
            id: settlement.id,
            epoch: settlement.epoch,
            outcome: settlement.outcome.kind().as_str(),
            result: None,
            error: None,
            delay: None,
            is_final: false,
        };
        match &settlement.outcome {
            Outcome::Succeeded { result } => document.result = result.as_ref(),
            Outcome::Failed { error, delay, is_final } => {
                document.error = Some(clean(error));
                document.delay = delay.map(interval_text);
                document.is_final = *is_final;
            }
            Outcome::Snoozed { delay } => document.delay = Some(interval_text(*delay)),
            Outcome::Released => {}
            Outcome::Abandoned { error } => document.error = Some(clean(error)),
            Outcome::Cancelled { error } => document.error = error.as_ref().map(clean),
            other => {
                let message = format!("this store cannot record the outcome {}", other.kind().as_str());
                return Err(StoreError::Unsupported { index: Some(index), message });
            }
        }
        documents.push(document);
    }
    write(documents)
}

#[derive(Serialize)]
struct ProgressDocument<'a> {
    id: JobId,
    epoch: Epoch,
    progress: &'a Json,
}

/// Writes the documents of `heartbeat`.
pub(super) fn of_progress(notes: &[Progress]) -> Result<JsonbText, StoreError> {
    write(notes.iter().map(|note| ProgressDocument {
        id: note.id,
        epoch: note.epoch,
        progress: &note.progress,
    }))
}

/// A record's fields are open to everyone, so its texts may not have been cleaned yet.
fn clean(error: &ErrorRecord) -> ErrorRecord {
    let record = ErrorRecord::new(&error.class, &error.message);
    match &error.backtrace {
        Some(backtrace) => record.with_backtrace(backtrace),
        None => record,
    }
}

/// ISO 8601 with the microseconds that PostgreSQL keeps; the rest is cut, not rounded.
fn time_text(time: Timestamp) -> String {
    format!("{time:.6}")
}

fn write<T: Serialize>(documents: impl IntoIterator<Item = T>) -> Result<JsonbText, StoreError> {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut bytes);
    let result = (|| {
        let mut array = serde::Serializer::serialize_seq(&mut serializer, None)?;
        for document in documents {
            array.serialize_element(&document)?;
        }
        array.end()
    })();
    result.map_err(|error: serde_json::Error| StoreError::invalid(format!("no JSON document: {error}")))?;
    if bytes.len() > LIMIT {
        let message = format!("the call carries {} bytes, more than {LIMIT}: split it", bytes.len());
        return Err(StoreError::invalid(message));
    }
    let text = String::from_utf8(bytes).map_err(|error| StoreError::invalid(error.to_string()))?;
    Ok(JsonbText(text))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taskq_core::model::{ActorName, PAYLOAD_LIMIT, QueueName};

    use super::*;

    fn job() -> NewJob {
        let payload = Json::from_value(&[1, 2], PAYLOAD_LIMIT).unwrap();
        NewJob::new(QueueName::new("q").unwrap(), ActorName::new("a").unwrap(), payload)
    }

    fn value(text: &JsonbText) -> serde_json::Value {
        serde_json::from_str(&text.0).unwrap()
    }

    #[test]
    fn a_plain_job_says_little() {
        let document = value(&of_jobs(&[(job(), Notify::Default)]).unwrap());
        let mut keys: Vec<_> = document[0].as_object().unwrap().keys().cloned().collect();
        keys.sort();
        let expected = ["actor", "id", "max_attempts", "payload", "payload_version", "priority", "queue"];
        assert_eq!(keys, expected);
    }

    #[test]
    fn times_and_delays_are_text() {
        let mut at = job();
        at.schedule = Schedule::At("2031-02-03T04:05:06.123456789Z".parse().unwrap());
        let mut after = job();
        after.schedule = Schedule::After(Duration::from_millis(1_500));
        let document = value(&of_jobs(&[(at, Notify::None), (after, Notify::Default)]).unwrap());
        assert_eq!(document[0]["scheduled_at"], "2031-02-03T04:05:06.123456Z");
        assert_eq!(document[0]["notify"], "none");
        assert_eq!(document[1]["delay"], "1.500000 seconds");
    }

    #[test]
    fn a_nul_is_refused_with_its_index_and_an_error_is_cleaned() {
        let mut bad = job();
        bad.tags = vec!["a\0b".to_owned()];
        let refused = of_jobs(&[(job(), Notify::Default), (bad, Notify::Default)]);
        assert!(matches!(refused, Err(StoreError::Invalid { index: Some(1), .. })));
        let error = ErrorRecord { class: "c".into(), message: "a\0b".repeat(100_000), backtrace: None };
        let outcome = Outcome::Failed { error, delay: None, is_final: true };
        let settlement = Settlement { id: JobId::new(), epoch: Epoch(1), outcome };
        let document = of_settlements(&[settlement]).unwrap();
        assert!(!document.0.contains("\\u0000") && document.0.len() < 100_000);
        assert_eq!(value(&document)[0]["final"], true);
    }
}
