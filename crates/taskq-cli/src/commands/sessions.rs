//! `taskq workers` and `taskq leader`.

use std::time::Duration;

use serde::Serialize;
use taskq::store::{LeaderSummary, WorkerState, WorkerSummary};

use super::connect::connect;
use crate::cli::OutputArgs;
use crate::config::DatabaseSettings;
use crate::exit::{Exit, Failure};
use crate::{output, parse};

#[derive(Serialize)]
struct Session<'a> {
    #[serde(flatten)]
    summary: &'a WorkerSummary,
    leads: bool,
}

/// Lists the worker sessions, oldest first, lost ones included.
pub(super) async fn workers(args: OutputArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
    let client = connect(&database).await?;
    let leader = client.leader().await?.map(|leader| leader.worker);
    let workers = client.workers().await?;
    let sessions: Vec<_> =
        workers.iter().map(|summary| Session { summary, leads: leader == Some(summary.worker) }).collect();
    if args.json {
        output::json(&sessions)?;
        return Ok(Exit::Done);
    }
    if sessions.is_empty() {
        output::note("there is no worker");
        return Ok(Exit::Done);
    }
    let rows = sessions.iter().map(|Session { summary, leads }| {
        let left = match summary.state {
            WorkerState::Active => whole_seconds(summary.lease_left),
            WorkerState::Lost => "-".to_owned(),
        };
        [
            summary.worker.to_string(),
            output::word(&summary.state),
            if *leads { "leads" } else { "" }.to_owned(),
            summary.running.to_string(),
            left,
            output::joined(&summary.queues),
            output::joined(&summary.actors),
            output::time(summary.started_at),
        ]
    });
    let header = ["worker", "state", "", "running", "lease left", "queues", "actors", "started"];
    output::line(&output::table(header, rows))?;
    Ok(Exit::Done)
}

/// Says which worker leads.
pub(super) async fn leader(args: OutputArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
    let leader = connect(&database).await?.leader().await?;
    if args.json {
        output::json(&leader)?;
    }
    let Some(LeaderSummary { worker, epoch, expires_at, lease_left }) = leader else {
        return Err(Failure::failed(
            "no worker leads: until one does, jobs do not become due and lost ones are not rescued",
        ));
    };
    if !args.json {
        output::line(&output::facts([
            ("worker", worker.to_string()),
            ("epoch", epoch.to_string()),
            ("lease left", whole_seconds(lease_left)),
            ("lease ends", output::time(expires_at)),
        ]))?;
    }
    Ok(Exit::Done)
}

/// More detail than seconds would be over before it is read.
fn whole_seconds(duration: Duration) -> String {
    parse::format_duration(Duration::from_secs(duration.as_secs()))
}
