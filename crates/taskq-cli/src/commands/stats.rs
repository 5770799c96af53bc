//! `taskq stats`.

use std::collections::BTreeMap;

use serde::Serialize;
use taskq::WorkerId;
use taskq::store::{ActorSummary, Count, Stats, WorkerSummary};

use super::connect::connect;
use crate::cli::OutputArgs;
use crate::config::DatabaseSettings;
use crate::exit::{Exit, Failure};
use crate::output;

#[derive(Serialize)]
struct Facts<'a> {
    jobs: BTreeMap<&'static str, Count>,
    workers: &'a [WorkerSummary],
    leader: Option<WorkerId>,
    unserved: &'a [ActorSummary],
}

/// Counts jobs by status; lists live workers and the actors that nobody serves.
pub(super) async fn run(args: OutputArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
    let stats = connect(&database).await?.store().stats().await?;
    if args.json {
        output::json(&Facts {
            jobs: stats.jobs.iter().map(|(status, count)| (status.as_str(), *count)).collect(),
            workers: &stats.workers,
            leader: stats.leader,
            unserved: &stats.unserved,
        })?;
    } else {
        output::line(&text(&stats))?;
    }
    Ok(Exit::Done)
}

fn text(stats: &Stats) -> String {
    let jobs = stats.jobs.iter().map(|(status, count)| [status.to_string(), count.to_string()]);
    let mut parts = vec![output::table(["status", "jobs"], jobs)];
    if stats.workers.is_empty() {
        parts.push("No worker is alive.".to_owned());
    } else {
        let rows = stats.workers.iter().map(|worker| {
            [
                worker.worker.to_string(),
                if stats.leader == Some(worker.worker) { "leads" } else { "" }.to_owned(),
                worker.running.to_string(),
                output::joined(&worker.queues),
                output::joined(&worker.actors),
                output::time(worker.started_at),
            ]
        });
        parts.push(output::table(["worker", "", "running", "queues", "actors", "started"], rows));
    }
    if !stats.unserved.is_empty() {
        let rows = stats
            .unserved
            .iter()
            .map(|lane| [lane.queue.to_string(), lane.actor.to_string(), lane.pending.to_string()]);
        parts.push(format!(
            "Ready jobs that no live worker serves:\n{}",
            output::table(["queue", "actor", "pending"], rows)
        ));
    }
    parts.join("\n\n")
}
