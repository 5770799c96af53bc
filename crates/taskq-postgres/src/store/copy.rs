//! Many jobs at once: copied into a table of the session's own, and written from there by one statement.

use std::error::Error;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::SinkExt as _;
use jiff::Timestamp;
use taskq_core::model::{EnqueueOutcome, Enqueued, FairnessKey, Keep, NewJob, OnFinished, Schedule, Status};
use taskq_core::store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type};

use super::Calls;
use super::documents::Notify;
use crate::codec::{Columns, Interval, JsonbRef, JsonbText, Time};
use crate::session::{Connection, Within};

/// From how many jobs on a copy costs less than documents do.
const LEAST: usize = 500;

/// How many bytes of rows are handed to the connection at once.
const PIECE: usize = 64 * 1024;

/// The first second of the year 1, from 1970 on. What lies before it is refused, and not every such time can travel.
const YEAR_1: i64 = -62_135_596_800;

impl Calls {
    /// Writes jobs by way of the staging table. Nothing when they are few, when one has what the table does not take, when
    /// the server does not let this session have one, and in the pooled mode.
    pub(super) async fn write_staged(
        &self,
        jobs: &[(NewJob, Notify)],
    ) -> Result<Option<Vec<Enqueued>>, StoreError> {
        if jobs.len() < LEAST || !jobs.iter().all(|(job, _)| is_stageable(job)) {
            return Ok(None);
        }
        let mut rows = jobs
            .iter()
            .enumerate()
            .map(|(at, (job, notify))| Staged::of(at, job, *notify))
            .collect::<Result<Vec<_>, _>>()?;
        // Written in the order of their ids, so that two calls with the same ids cannot wait for each other.
        rows.sort_by_key(|row| row.job.id);
        let rows = encoded(&rows)?;
        let connection = self.client.connection().await?;
        // The table belongs to a session, and the next transaction may meet another.
        if connection.is_pooled() {
            return Ok(None);
        }
        if !*connection.staging.get_or_init(|| self.prepare_staging(&connection)).await {
            return Ok(None);
        }
        let transaction = self.client.begin(&connection).await?;
        let is_refused = AtomicBool::new(false);
        let copy = self.copy(transaction.statements(), jobs.len(), rows, &is_refused);
        let written = self.client.end(transaction, copy).await;
        if is_refused.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if written.is_err() {
            // What a transaction leaves in the table that is rolled back goes only with the next commit that looks at it.
            self.prepare_staging(&connection).await;
        }
        answers(jobs, &written?).map(Some)
    }

    /// Makes the staging table, or empties it, and says whether it is there.
    async fn prepare_staging(&self, connection: &Arc<Connection>) -> bool {
        let made = self.client.query_on(connection, &self.statements.prepare_staging, &[]).await;
        if let Err(error) = &made {
            tracing::debug!(%error, "there is no staging table; jobs go as documents");
        }
        made.is_ok()
    }

    /// Copies and enqueues. When the server refuses the copy, it says so in `is_refused` and closes the connection: the
    /// driver ends a copy that never began with a message of its own, whose answer would be taken for that of the next call.
    async fn copy(
        &self,
        within: Within,
        jobs: usize,
        rows: Vec<Bytes>,
        is_refused: &AtomicBool,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let mut sink = match within.copy_in(&self.statements.stage).await {
            Ok(sink) => pin!(sink),
            Err(error) => {
                if error.code().is_some_and(is_refusal) {
                    tracing::debug!(%error, "the server refuses the copy; the jobs go as documents");
                    is_refused.store(true, Ordering::Relaxed);
                }
                within.close();
                return Err(error);
            }
        };
        for piece in rows {
            sink.send(piece).await?;
        }
        sink.finish().await?;
        let count = i64::try_from(jobs).unwrap_or(i64::MAX);
        within.query(&self.statements.enqueue_staged, &[&count]).await
    }
}

/// The columns of the statement that copies.
const TYPES: [Type; 19] = [
    Type::INT4,
    Type::UUID,
    Type::TEXT,
    Type::TEXT,
    Type::JSONB,
    Type::INT4,
    Type::INT2,
    Type::INT2,
    Type::TEXT,
    Type::TIMESTAMPTZ,
    Type::INTERVAL,
    Type::TIMESTAMPTZ,
    Type::INTERVAL,
    Type::JSONB,
    Type::TEXT,
    Type::JSONB,
    Type::TEXT_ARRAY,
    Type::TEXT,
    Type::TEXT,
];

/// A row of the staging table.
struct Staged<'a> {
    nth: i32,
    queue: &'a str,
    actor: &'a str,
    payload: JsonbRef<'a>,
    notify: Option<&'static str>,
    scheduled_at: Option<Time>,
    delay: Option<Interval>,
    schedule_to_close: Option<Time>,
    start_to_close: Option<Interval>,
    retry_policy: Option<JsonbText>,
    metadata: Option<JsonbRef<'a>>,
    tags: Option<&'a [String]>,
    fairness_key: Option<&'a str>,
    keep: Option<&'static str>,
    job: &'a NewJob,
}

impl<'a> Staged<'a> {
    fn of(at: usize, job: &'a NewJob, notify: Notify) -> Result<Self, StoreError> {
        let policy = job.retry_policy.as_ref().map(serde_json::to_string).transpose();
        let refuse = |error: String| refusal(at, &error);
        Ok(Self {
            nth: i32::try_from(at + 1).map_err(|error| refuse(error.to_string()))?,
            queue: job.queue.as_str(),
            actor: job.actor.as_str(),
            payload: JsonbRef(&job.payload),
            notify: (notify == Notify::None || job.notify == Notify::None).then_some("none"),
            scheduled_at: match job.schedule {
                Schedule::At(time) => Some(Time(time)),
                Schedule::Now | Schedule::After(_) => None,
            },
            delay: match job.schedule {
                Schedule::After(delay) => Some(Interval(delay)),
                Schedule::Now | Schedule::At(_) => None,
            },
            schedule_to_close: job.schedule_to_close.map(Time),
            start_to_close: job.start_to_close.map(Interval),
            retry_policy: policy.map_err(|error| refuse(error.to_string()))?.map(JsonbText),
            metadata: job.metadata.as_ref().map(JsonbRef),
            tags: (!job.tags.is_empty()).then_some(job.tags.as_slice()),
            fairness_key: job.fairness_key.as_ref().map(FairnessKey::as_str),
            keep: (job.keep == Keep::None).then_some("none"),
            job,
        })
    }

    fn refused(&self, error: &str) -> StoreError {
        refusal(usize::try_from(self.nth - 1).unwrap_or_default(), error)
    }

    /// The fields in the order of the columns.
    fn fields(&self) -> [&(dyn ToSql + Sync); 19] {
        [
            &self.nth,
            &self.job.id.0,
            &self.queue,
            &self.actor,
            &self.payload,
            &self.job.payload_version,
            &self.job.priority,
            &self.job.max_attempts,
            &self.notify,
            &self.scheduled_at,
            &self.delay,
            &self.schedule_to_close,
            &self.start_to_close,
            &self.retry_policy,
            &self.job.trace_context,
            &self.metadata,
            &self.tags,
            &self.fairness_key,
            &self.keep,
        ]
    }
}

fn refusal(at: usize, error: &str) -> StoreError {
    StoreError::Invalid { index: Some(at), message: format!("element {at}: {error}") }
}

/// Makes what a binary COPY takes of the rows, in pieces of a size at which handing them on costs next to nothing.
fn encoded(rows: &[Staged<'_>]) -> Result<Vec<Bytes>, StoreError> {
    let mut pieces = Vec::new();
    let mut piece = BytesMut::with_capacity(2 * PIECE);
    piece.put_slice(b"PGCOPY\n\xff\r\n\0");
    // No flags, no extension of the header.
    piece.put_u64(0);
    for row in rows {
        put(row, &mut piece).map_err(|error| row.refused(&error.to_string()))?;
        if piece.len() >= PIECE {
            pieces.push(mem::replace(&mut piece, BytesMut::with_capacity(2 * PIECE)).freeze());
        }
    }
    piece.put_i16(-1);
    pieces.push(piece.freeze());
    Ok(pieces)
}

fn put(row: &Staged<'_>, out: &mut BytesMut) -> Result<(), Box<dyn Error + Sync + Send>> {
    out.put_i16(i16::try_from(TYPES.len())?);
    for (field, of_type) in row.fields().into_iter().zip(&TYPES) {
        let at = out.len();
        out.put_i32(-1);
        if matches!(field.to_sql_checked(of_type, out)?, IsNull::No) {
            let length = i32::try_from(out.len() - at - size_of::<i32>())?;
            out[at..at + size_of::<i32>()].copy_from_slice(&length.to_be_bytes());
        }
    }
    Ok(())
}

/// Says whether a job has nothing that the staging table does not take.
fn is_stageable(job: &NewJob) -> bool {
    // Taken apart, so that nobody forgets a field that is added.
    let NewJob {
        id: _,
        queue: _,
        actor: _,
        payload: _,
        payload_version: _,
        priority: _,
        schedule,
        schedule_to_close,
        start_to_close: _,
        max_attempts: _,
        retry_policy: _,
        tags: _,
        metadata: _,
        trace_context: _,
        fairness_key: _,
        idempotency_key: None,
        on_finished: OnFinished::Return,
        keep: _,
        notify: _,
    } = job
    else {
        return false;
    };
    let at = if let Schedule::At(at) = schedule { Some(at) } else { None };
    [at, schedule_to_close.as_ref()].into_iter().flatten().copied().all(can_travel)
}

fn can_travel(time: Timestamp) -> bool {
    time.as_second() >= YEAR_1
}

/// Says whether the server does not let this session copy, or the table has been dropped under it, as by `DISCARD`.
fn is_refusal(code: &SqlState) -> bool {
    matches!(code.code(), "42501" | "42P01" | "0A000")
}

/// What became of the jobs: each is new and pending unless a row says otherwise.
fn answers(jobs: &[(NewJob, Notify)], rows: &[Row]) -> Result<Vec<Enqueued>, StoreError> {
    let created = |job: &NewJob| Enqueued {
        id: job.id,
        outcome: EnqueueOutcome::Created,
        status: Some(Status::Pending),
    };
    let mut answers: Vec<_> = jobs.iter().map(|(job, _)| created(job)).collect();
    for row in rows {
        let mut columns = Columns::of(row);
        let at = columns.read_as(|nth: i64| usize::try_from(nth - 1))?;
        let Some(answer) = answers.get_mut(at) else {
            return Err(StoreError::Answer { message: format!("an answer to job {at} of {}", jobs.len()) });
        };
        *answer = super::enqueue::enqueued(&mut columns)?;
    }
    Ok(answers)
}
