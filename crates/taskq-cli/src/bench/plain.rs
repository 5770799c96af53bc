//! The same rows that an enqueue writes, written without taskq: by an insert of one row, and by a binary COPY of many.

use taskq::{DEFAULT_MAX_ATTEMPTS, Job};
use tokio_postgres::Statement;
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::copy::{Copy, server_time};
use super::job::Numbered;
use super::scene::Session;
use crate::exit::Failure;

/// The insert of one row: id, queue, actor, payload.
pub(super) const INSERT: &str = r#"
    INSERT INTO "{schema}".jobs (id, created_at, priority, max_attempts, payload_version, scheduled_at, status, queue,
        actor, payload)
    VALUES ($1, now(), 0, 20, 1, now(), 'pending', $2, $3, $4)
"#;

const COLUMNS: [&str; 10] = [
    "id",
    "created_at",
    "priority",
    "max_attempts",
    "payload_version",
    "scheduled_at",
    "status",
    "queue",
    "actor",
    "payload",
];

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

/// Copies ready jobs into the table, each of the next of some actors; returns how many were written.
pub(super) async fn copy(
    session: &Session,
    jobs: impl IntoIterator<Item = Numbered>,
    actors: &[impl AsRef<str>],
) -> Result<u64, Failure> {
    let now = server_time(session).await?;
    let mut copy = Copy::begin(session, &COLUMNS).await?;
    for (job, actor) in jobs.into_iter().zip(actors.iter().cycle()) {
        copy.row()
            .id(Uuid::now_v7())
            .big(now)
            .small(0)
            .small(DEFAULT_MAX_ATTEMPTS)
            .integer(Numbered::VERSION);
        copy.big(now).text("pending").text(Numbered::QUEUE).text(actor.as_ref()).json(&job)?;
        copy.flow().await?;
    }
    copy.finish().await
}
