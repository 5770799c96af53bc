//! The JSON documents of the protocol.

use std::borrow::Borrow;

use jiff::Timestamp;
use serde::Serialize;
use serde::ser::SerializeSeq;
pub(super) use taskq_core::model::Notify;
use taskq_core::model::{
    DEFAULT_MAX_ATTEMPTS, Epoch, ErrorRecord, FairnessKey, IdempotencyKey, JobId, Json, Keep, NewJob,
    OnFinished, Outcome, RetryPolicy, Schedule, Settlement,
};
use taskq_core::store::{Progress, StoreError};
use uuid::Uuid;

use crate::codec::{JsonbText, interval_text};

/// The largest document that one call may carry: PostgreSQL's own limit for the elements of an array.
const LIMIT: usize = 255 * 1024 * 1024;

#[derive(Serialize)]
struct JobDocument<'a> {
    id: JobId,
    queue: &'a str,
    actor: &'a str,
    payload: &'a Json,
    // What a job has that names none is left out: it is shorter, and its document is sooner checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_version: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule_to_close: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_to_close: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<i16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_policy: Option<&'a RetryPolicy>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_context: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fairness_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_finished: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notify: Option<&'static str>,
}

impl<'a> JobDocument<'a> {
    fn of(job: &'a NewJob, notify: Notify) -> Self {
        Self {
            id: job.id,
            queue: job.queue.as_str(),
            actor: job.actor.as_str(),
            payload: &job.payload,
            payload_version: (job.payload_version != 1).then_some(job.payload_version),
            priority: (job.priority != 0).then_some(job.priority),
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
            max_attempts: (job.max_attempts != DEFAULT_MAX_ATTEMPTS).then_some(job.max_attempts),
            retry_policy: job.retry_policy.as_ref(),
            tags: &job.tags,
            metadata: job.metadata.as_ref(),
            trace_context: job.trace_context.as_deref(),
            fairness_key: job.fairness_key.as_ref().map(FairnessKey::as_str),
            idempotency_key: job.idempotency_key.as_ref().map(IdempotencyKey::as_str),
            on_finished: (job.on_finished == OnFinished::RunAgain).then_some("run_again"),
            keep: (job.keep == Keep::None).then_some("none"),
            notify: (notify == Notify::None || job.notify == Notify::None).then_some("none"),
        }
    }
}

/// Refuses what the server could not, because a document cannot say it.
pub(crate) fn check_jobs<'a>(jobs: impl IntoIterator<Item = &'a NewJob>) -> Result<(), StoreError> {
    for (index, job) in jobs.into_iter().enumerate() {
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
    Ok(())
}

/// Writes the document of `enqueue`.
pub(crate) fn of_job(job: &NewJob, notify: Notify) -> Result<JsonbText, StoreError> {
    let text = serde_json::to_string(&JobDocument::of(job, notify));
    text.map(JsonbText).map_err(|error| StoreError::invalid(format!("no JSON document: {error}")))
}

/// Writes the documents of `enqueue_many`.
pub(crate) fn of_jobs<N: Borrow<NewJob>>(jobs: &[(N, Notify)]) -> Result<JsonbText, StoreError> {
    write(jobs.iter().map(|(job, notify)| JobDocument::of(job.borrow(), *notify)))
}

/// What of an outcome is neither its job, its epoch nor its word.
#[derive(Default, Serialize)]
struct Detail<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    #[serde(rename = "final", skip_serializing_if = "std::ops::Not::not")]
    is_final: bool,
}

/// Settlements as the parameters of `settle_batch`: columns whose n-th elements belong together.
#[derive(Debug, Default)]
pub(super) struct SettlementColumns {
    pub(super) ids: Vec<Uuid>,
    pub(super) epochs: Vec<i64>,
    pub(super) outcomes: Vec<&'static str>,
    /// Absent when no settlement has any.
    pub(super) details: Option<Vec<Option<JsonbText>>>,
    /// Where each row stood in what was given.
    pub(super) places: Vec<usize>,
}

/// Turns settlements into columns. Without details they are in the order of their ids, which the server likes best.
pub(super) fn of_settlements(settlements: &[Settlement]) -> Result<SettlementColumns, StoreError> {
    let mut details = Vec::with_capacity(settlements.len());
    let mut bytes = 0;
    for (index, settlement) in settlements.iter().enumerate() {
        let detail = match &settlement.outcome {
            Outcome::Succeeded { result: None } | Outcome::Released | Outcome::Cancelled { error: None } => {
                None
            }
            Outcome::Succeeded { result } => Some(Detail { result: result.as_ref(), ..Detail::default() }),
            Outcome::Failed { error, delay, is_final } => Some(Detail {
                error: Some(clean(error)),
                delay: delay.map(interval_text),
                is_final: *is_final,
                ..Detail::default()
            }),
            Outcome::Snoozed { delay } => {
                Some(Detail { delay: Some(interval_text(*delay)), ..Detail::default() })
            }
            Outcome::Abandoned { error } | Outcome::Cancelled { error: Some(error) } => {
                Some(Detail { error: Some(clean(error)), ..Detail::default() })
            }
            other => {
                let message = format!("this store cannot record the outcome {}", other.kind().as_str());
                return Err(StoreError::Unsupported { index: Some(index), message });
            }
        };
        let detail = detail.map(|detail| serde_json::to_string(&detail)).transpose().map_err(no_document)?;
        bytes += detail.as_ref().map_or(0, String::len);
        details.push(detail.map(JsonbText));
    }
    if bytes > LIMIT {
        return Err(too_large(bytes));
    }
    let mut places: Vec<_> = (0..settlements.len()).collect();
    let details = details.iter().any(Option::is_some).then_some(details);
    if details.is_none() {
        places.sort_by_key(|place| settlements[*place].id.0);
    }
    let ordered = || places.iter().map(|place| &settlements[*place]);
    Ok(SettlementColumns {
        ids: ordered().map(|settlement| settlement.id.0).collect(),
        epochs: ordered().map(|settlement| settlement.epoch.0).collect(),
        outcomes: ordered().map(|settlement| settlement.outcome.kind().as_str()).collect(),
        details,
        places,
    })
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
    result.map_err(no_document)?;
    if bytes.len() > LIMIT {
        return Err(too_large(bytes.len()));
    }
    let text = String::from_utf8(bytes).map_err(|error| StoreError::invalid(error.to_string()))?;
    Ok(JsonbText(text))
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn no_document(error: serde_json::Error) -> StoreError {
    StoreError::invalid(format!("no JSON document: {error}"))
}

fn too_large(bytes: usize) -> StoreError {
    StoreError::invalid(format!("the call carries {bytes} bytes, more than {LIMIT}: split it"))
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
        let document = value(&of_job(&job(), Notify::Default).unwrap());
        let mut keys: Vec<_> = document.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        assert_eq!(keys, ["actor", "id", "payload", "queue"]);
        let mut other = job();
        (other.priority, other.max_attempts, other.payload_version) = (-1, 21, 2);
        let document = value(&of_job(&other, Notify::Default).unwrap());
        assert_eq!((&document["priority"], &document["max_attempts"]), (&(-1).into(), &21.into()));
        assert_eq!(document["payload_version"], 2);
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
        let refused = check_jobs(&[job(), bad]);
        assert!(matches!(refused, Err(StoreError::Invalid { index: Some(1), .. })));
        let error = ErrorRecord { class: "c".into(), message: "a\0b".repeat(100_000), backtrace: None };
        let outcome = Outcome::Failed { error, delay: None, is_final: true };
        let columns = of_settlements(&[settlement(outcome)]).unwrap();
        let detail = columns.details.unwrap().remove(0).unwrap();
        assert!(!detail.0.contains("\\u0000") && detail.0.len() < 100_000);
        assert_eq!(value(&detail)["final"], true);
    }

    fn settlement(outcome: Outcome) -> Settlement {
        Settlement { id: JobId::new(), epoch: Epoch(1), outcome }
    }

    #[test]
    fn settlements_without_details_are_in_the_order_of_their_ids() {
        let mut settlements: Vec<_> =
            (0..3).map(|_| settlement(Outcome::Succeeded { result: None })).collect();
        settlements.reverse();
        let columns = of_settlements(&settlements).unwrap();
        assert!(columns.details.is_none() && columns.ids.is_sorted());
        assert_eq!(columns.places, [2, 1, 0]);
        settlements[1].outcome = Outcome::Snoozed { delay: Duration::from_secs(1) };
        let columns = of_settlements(&settlements).unwrap();
        assert_eq!(columns.places, [0, 1, 2]);
        let details: Vec<_> = columns.details.unwrap().iter().map(Option::is_some).collect();
        assert_eq!(details, [false, true, false]);
        assert_eq!(columns.outcomes, ["succeeded", "snoozed", "succeeded"]);
    }
}
