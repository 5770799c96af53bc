//! The same rows that an enqueue writes, written without taskq: by an insert of one row, and by a binary COPY of many.

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::SinkExt;
use taskq::{DEFAULT_MAX_ATTEMPTS, Job};
use tokio_postgres::Statement;
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::job::Numbered;
use super::scene::Session;
use crate::exit::Failure;

const INSERT: &str = r#"
    INSERT INTO "{schema}".jobs (id, created_at, priority, max_attempts, payload_version, scheduled_at, status, queue,
        actor, payload)
    VALUES ($1, now(), 0, 20, 1, now(), 'pending', $2, $3, $4)
"#;

const COPY: &str = r#"
    COPY "{schema}".jobs (id, created_at, priority, max_attempts, payload_version, scheduled_at, status, queue, actor,
        payload) FROM STDIN (FORMAT binary)
"#;

/// Microseconds since 2000, as PostgreSQL keeps times.
const NOW: &str =
    "SELECT (extract(epoch FROM clock_timestamp() - '2000-01-01Z'::timestamptz) * 1000000)::bigint";

/// How much of a COPY is sent at once.
const PIECE: usize = 64 * 1024;

/// Prepares the insert of one row.
pub(super) async fn prepare(session: &Session) -> Result<Statement, Failure> {
    Ok(session.client.prepare(&session.sql(INSERT)).await?)
}

/// Inserts one job.
pub(super) async fn insert(session: &Session, insert: &Statement, job: Numbered) -> Result<(), Failure> {
    let id = Uuid::now_v7();
    session.client.execute(insert, &[&id, &Numbered::QUEUE, &Numbered::ACTOR, &Json(job)]).await?;
    Ok(())
}

/// Copies jobs into the table; returns how many were written.
pub(super) async fn copy(session: &Session, jobs: &[Numbered]) -> Result<u64, Failure> {
    let now: i64 = session.one(NOW, &[]).await?.get(0);
    let mut sink = std::pin::pin!(session.client.copy_in::<_, Bytes>(&session.sql(COPY)).await?);
    let mut buffer = BytesMut::with_capacity(2 * PIECE);
    buffer.put_slice(b"PGCOPY\n\xff\r\n\0");
    // No flags, no extension of the header.
    buffer.put_u64(0);
    for job in jobs {
        put(&mut buffer, *job, now)?;
        if buffer.len() >= PIECE {
            sink.send(buffer.split().freeze()).await?;
        }
    }
    buffer.put_i16(-1);
    sink.send(buffer.split().freeze()).await?;
    Ok(sink.finish().await?)
}

fn put(buffer: &mut BytesMut, job: Numbered, now: i64) -> Result<(), Failure> {
    let payload = serde_json::to_vec(&job).map_err(|error| Failure::failed(error.to_string()))?;
    buffer.put_i16(10);
    field(buffer, Uuid::now_v7().as_bytes());
    field(buffer, &now.to_be_bytes());
    field(buffer, &0_i16.to_be_bytes());
    field(buffer, &DEFAULT_MAX_ATTEMPTS.to_be_bytes());
    field(buffer, &Numbered::VERSION.to_be_bytes());
    field(buffer, &now.to_be_bytes());
    field(buffer, b"pending");
    field(buffer, Numbered::QUEUE.as_bytes());
    field(buffer, Numbered::ACTOR.as_bytes());
    // The version of jsonb's binary form, then its text.
    length(buffer, payload.len() + 1);
    buffer.put_u8(1);
    buffer.put_slice(&payload);
    Ok(())
}

fn field(buffer: &mut BytesMut, bytes: &[u8]) {
    length(buffer, bytes.len());
    buffer.put_slice(bytes);
}

fn length(buffer: &mut BytesMut, bytes: usize) {
    buffer.put_u32(u32::try_from(bytes).expect("a benchmark's payload is a few bytes long"));
}
