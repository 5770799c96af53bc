//! Filling the table of jobs.

use super::progress::Progress;
use super::scene::{Scene, Session};
use crate::exit::Failure;

/// How many jobs are written in one transaction.
const CHUNK: u64 = 10_000;

/// Jobs as `enqueue_many` writes them, without the work of checking documents.
const READY: &str = r#"
    INSERT INTO "{schema}".jobs (id, created_at, scheduled_at, status, queue, actor, payload)
    SELECT "{schema}".make_id(c.now, n), c.now, c.now, 'pending', $1, ($2::text[])[1 + n % cardinality($2::text[])],
        jsonb_build_object('n', n)
    FROM (SELECT "{schema}".clock_now() AS now) c, generate_series($3::bigint, $4::bigint) n
"#;

/// Begins anew: empties the tables, writes ready jobs of a queue, spread over its actors, and settles the server down.
pub(super) async fn ready(
    scene: &Scene,
    queue: &str,
    actors: &[String],
    jobs: u64,
    progress: &Progress,
) -> Result<(), Failure> {
    scene.empty().await?;
    // Before the rows: what they dirty is not flushed while something is measured.
    if scene.is_private() {
        scene.control().run("CHECKPOINT").await?;
    }
    write(scene.control(), queue, actors, jobs, progress).await?;
    scene.control().run(r#"VACUUM (ANALYZE) "{schema}".jobs"#).await
}

async fn write(
    session: &Session,
    queue: &str,
    actors: &[String],
    jobs: u64,
    progress: &Progress,
) -> Result<(), Failure> {
    let insert = session.client.prepare(&session.sql(READY)).await?;
    let bigint = |number: u64| i64::try_from(number).map_err(|error| Failure::usage(error.to_string()));
    let mut written = 0;
    while written < jobs {
        let end = (written + CHUNK).min(jobs);
        session.client.execute(&insert, &[&queue, &actors, &bigint(written)?, &bigint(end - 1)?]).await?;
        progress.advance(end - written);
        written = end;
    }
    Ok(())
}
