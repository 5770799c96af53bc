//! Filling the queue before a drain.

use super::job::Numbered;
use super::plain;
use super::progress::Progress;
use super::scene::Scene;
use crate::exit::Failure;

/// How many jobs are written in one transaction.
const CHUNK: u64 = 10_000;

/// Begins anew: empties the tables, writes ready jobs, spread over some actors, and settles the server down.
pub(super) async fn ready(
    scene: &Scene,
    actors: &[String],
    jobs: u64,
    progress: &Progress,
) -> Result<(), Failure> {
    scene.empty().await?;
    if scene.is_private() {
        // Before the rows: what they dirty is not flushed while something is measured.
        scene.control().run("CHECKPOINT").await?;
    }
    let mut written = 0;
    while written < jobs {
        let end = (written + CHUNK).min(jobs);
        plain::copy(scene.control(), (written..end).map(|n| Numbered { n }), actors).await?;
        progress.advance(end - written);
        written = end;
    }
    scene.control().run(r#"VACUUM (ANALYZE) "{schema}".jobs"#).await
}
