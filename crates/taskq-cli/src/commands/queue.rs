//! `taskq queue list`.

use super::connect::connect;
use crate::cli::OutputArgs;
use crate::config::DatabaseSettings;
use crate::exit::{Exit, Failure};
use crate::{output, parse};

/// Lists the queues that have jobs, settings or workers.
pub(super) async fn list(args: OutputArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
    let queues = connect(&database).await?.store().queues().await?;
    if args.json {
        output::json(&queues)?;
        return Ok(Exit::Done);
    }
    if queues.is_empty() {
        output::note("no queue has jobs, settings or workers");
        return Ok(Exit::Done);
    }
    let rows = queues.iter().map(|queue| {
        [
            queue.queue.to_string(),
            output::word(&queue.mode),
            queue.scheduled.to_string(),
            queue.pending.to_string(),
            queue.running.to_string(),
            queue.oldest_pending.map_or_else(|| "-".to_owned(), parse::format_duration),
            queue.workers.to_string(),
        ]
    });
    output::line(&output::table(
        ["queue", "mode", "scheduled", "pending", "running", "oldest pending", "workers"],
        rows,
    ))?;
    Ok(Exit::Done)
}
