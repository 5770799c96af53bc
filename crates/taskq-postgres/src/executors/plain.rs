//! A job of common fields in a transaction: columns in place of a document, which is most of what an enqueue costs.

use std::fmt::Write as _;

use taskq_core::model::{Enqueued, JobId, NewJob, Notify};
use taskq_core::store::StoreError;

use super::literal::literal;
use crate::schema::SchemaName;
use crate::store::{is_plain, plainly_enqueued};

/// Writes the statement that enqueues a job of common fields; nothing for any other.
///
/// Its values stand in its text: it is parsed anew each time in any case, since nothing may stay behind on the caller's
/// connection. There is no cast in it, whose meaning the caller's search path could change; the function's own parameters
/// give the literals their types.
pub(super) fn statement(job: &NewJob, schema: &SchemaName) -> Option<String> {
    if !is_plain(job) {
        return None;
    }
    let payload = job.payload.as_str();
    let mut sql = String::with_capacity(payload.len() + payload.len() / 8 + 256);
    sql.push_str(&schema.render(r#"SELECT "{schema}".enqueue_plain("#));
    // Writing to a string cannot fail.
    let _ = write!(sql, "'{}',", job.id.0);
    for text in [job.queue.as_str(), job.actor.as_str(), payload] {
        literal(&mut sql, text);
        sql.push(',');
    }
    let wakes = job.notify == Notify::Default;
    let _ = write!(sql, "'{}','{}','{}','{wakes}')", job.payload_version, job.priority, job.max_attempts);
    Some(sql)
}

/// Reads its answer.
pub(super) fn answered(id: JobId, word: &str) -> Result<Enqueued, StoreError> {
    plainly_enqueued(id, word).map_err(|error| StoreError::Answer { message: error })
}
