//! `taskq workers` and `taskq leader`.

use std::time::Duration;

use serde::Serialize;
use taskq::store::{LeaderSummary, SettingSummary, SweepSummary, WorkerState, WorkerSummary};
use taskq::{Timestamp, WorkerId};

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

/// What is told of the leader: who it is, how its sweeps stand, what is set.
#[derive(Serialize)]
struct Leadership<'a> {
    worker: Option<WorkerId>,
    epoch: Option<i64>,
    expires_at: Option<Timestamp>,
    lease_left_s: Option<f64>,
    sweeps: Vec<Swept<'a>>,
    settings: &'a [SettingSummary],
}

/// A sweep with the metric that counts its rows.
#[derive(Serialize)]
struct Swept<'a> {
    #[serde(flatten)]
    summary: &'a SweepSummary,
    counter: &'static str,
}

/// Says which worker leads, how its sweeps stand and what is set.
pub(super) async fn leader(args: OutputArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
    let client = connect(&database).await?;
    let leader = client.leader().await?;
    let (sweeps, settings) = (client.sweeps().await?, client.settings().await?);
    if args.json {
        let counted = |summary| Swept { summary, counter: summary.sweep.counter() };
        output::json(&Leadership {
            worker: leader.map(|leader| leader.worker),
            epoch: leader.map(|leader| leader.epoch),
            expires_at: leader.map(|leader| leader.expires_at),
            lease_left_s: leader.map(|leader| leader.lease_left.as_secs_f64()),
            sweeps: sweeps.iter().map(counted).collect(),
            settings: &settings,
        })?;
    } else {
        if let Some(LeaderSummary { worker, epoch, expires_at, lease_left }) = leader {
            output::line(&output::facts([
                ("worker", worker.to_string()),
                ("epoch", epoch.to_string()),
                ("lease left", whole_seconds(lease_left)),
                ("lease ends", output::time(expires_at)),
            ]))?;
            output::line("")?;
        }
        output::line(&sweeps_table(&sweeps))?;
        let set: Vec<_> = settings.iter().filter_map(set_line).collect();
        if !set.is_empty() {
            output::line(&format!("\n{}", set.join("\n")))?;
        }
    }
    if leader.is_none() {
        return Err(Failure::failed(
            "no worker leads: until one does, jobs do not become due and lost ones are not rescued",
        ));
    }
    Ok(Exit::Done)
}

fn sweeps_table(sweeps: &[SweepSummary]) -> String {
    let header =
        ["sweep", "last run", "took", "rows", "swept", "backlog", "behind", "batch", "set to", "last error"];
    let rows = sweeps.iter().map(|sweep| {
        let error = sweep.last_error.as_ref().map(|error| {
            let at = sweep.last_error_at.map(output::time).unwrap_or_default();
            format!("{at} {error}")
        });
        [
            output::word(&sweep.sweep),
            sweep.last_run_at.map_or_else(|| "-".to_owned(), output::time),
            sweep.duration.map(parse::format_duration).unwrap_or_default(),
            sweep.last_run_at.map(|_| sweep.rows.to_string()).unwrap_or_default(),
            sweep.swept.to_string(),
            sweep.backlog.to_string(),
            if sweep.behind.is_zero() { String::new() } else { whole_seconds(sweep.behind) },
            sweep.batch.map(|batch| batch.to_string()).unwrap_or_default(),
            sweep.overrides.as_ref().map(ToString::to_string).unwrap_or_default(),
            error.unwrap_or_default(),
        ]
    });
    output::table(header, rows)
}

fn set_line(setting: &SettingSummary) -> Option<String> {
    let value = setting.value.as_ref()?;
    let problem =
        setting.problem.as_ref().map(|problem| format!(" (ignored: {problem})")).unwrap_or_default();
    Some(output::plain(&format!("{} is set to {value}{problem}", setting.name)))
}

/// More detail than seconds would be over before it is read.
fn whole_seconds(duration: Duration) -> String {
    parse::format_duration(Duration::from_secs(duration.as_secs()))
}
