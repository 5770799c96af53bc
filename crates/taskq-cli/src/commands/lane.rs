//! `taskq queue …` and `taskq actor …`.

use std::collections::BTreeMap;

use std::time::Duration;

use serde::Serialize;
use taskq::store::{ActorChanges, Count, QueueMode};
use taskq::{ActorName, LaneControl, OperateError, QueueChange, QueueName};

use super::connect::connect;
use crate::cli::{
    ActorArgs, ActorCommand, ActorSetArgs, ModeArg, OutputArgs, PeriodArg, QueueArgs, QueueCommand,
    QueueSetArgs,
};
use crate::config::DatabaseSettings;
use crate::exit::{Exit, Failure};
use crate::{output, parse};

/// Runs one of the verbs of queues.
pub(super) async fn queue(verb: QueueCommand, database: DatabaseSettings) -> Result<Exit, Failure> {
    match verb {
        QueueCommand::List(output) => list_queues(output, database).await,
        QueueCommand::Set(args) => set_mode(args, database).await,
        QueueCommand::Pause(args) => set_queue(args, database, Wanted::Paused).await,
        QueueCommand::Resume(args) => set_queue(args, database, Wanted::Running).await,
    }
}

/// Runs one of the verbs of actors.
pub(super) async fn actor(verb: ActorCommand, database: DatabaseSettings) -> Result<Exit, Failure> {
    match verb {
        ActorCommand::List(output) => list_actors(output, database).await,
        ActorCommand::Set(args) => set_periods(args, database).await,
        ActorCommand::Pause(args) => set_actor(args, database, Wanted::Paused).await,
        ActorCommand::Resume(args) => set_actor(args, database, Wanted::Running).await,
    }
}

/// Lists the queues that have jobs, settings or workers.
async fn list_queues(args: OutputArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
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
            paused(queue.paused),
            output::word(&queue.mode),
            queue.scheduled.to_string(),
            queue.pending.to_string(),
            queue.running.to_string(),
            queue.oldest_pending.map_or_else(
                || "-".to_owned(),
                |age| parse::format_duration(Duration::from_secs(age.as_secs())),
            ),
            queue.workers.to_string(),
        ]
    });
    output::line(&output::table(
        ["queue", "paused", "mode", "scheduled", "pending", "running", "oldest pending", "workers"],
        rows,
    ))?;
    Ok(Exit::Done)
}

/// An actor and what is cheaply known of it.
#[derive(Serialize)]
struct ActorFacts {
    actor: ActorName,
    paused: bool,
    /// Live workers that have a handler for it.
    workers: u64,
    /// Its ready jobs in queues that no live worker serves together with it.
    unserved: Vec<Unserved>,
}

#[derive(Serialize)]
struct Unserved {
    queue: QueueName,
    pending: Count,
}

/// Lists the actors that live workers serve, that are paused, or whose ready jobs nobody serves.
async fn list_actors(args: OutputArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
    let client = connect(&database).await?;
    let paused_actors = client.store().paused_actors().await?;
    let stats = client.store().stats().await?;
    let mut actors: BTreeMap<ActorName, ActorFacts> = BTreeMap::new();
    let mut note = |actor: ActorName, change: &dyn Fn(&mut ActorFacts)| {
        let facts = actors.entry(actor.clone());
        change(facts.or_insert(ActorFacts { actor, paused: false, workers: 0, unserved: Vec::new() }));
    };
    for actor in paused_actors {
        note(actor, &|facts| facts.paused = true);
    }
    for actor in stats.workers.into_iter().flat_map(|worker| worker.actors) {
        note(actor, &|facts| facts.workers += 1);
    }
    for lane in stats.unserved {
        let (queue, pending) = (lane.queue, lane.pending);
        note(lane.actor, &|facts| facts.unserved.push(Unserved { queue: queue.clone(), pending }));
    }
    let actors: Vec<_> = actors.into_values().collect();
    if args.json {
        output::json(&actors)?;
        return Ok(Exit::Done);
    }
    if actors.is_empty() {
        output::note("no actor is paused, served by a live worker, or waits for one");
        return Ok(Exit::Done);
    }
    let rows = actors.iter().map(|facts| {
        let unserved = facts.unserved.iter().map(|lane| format!("{} in {}", lane.pending, lane.queue));
        [
            facts.actor.to_string(),
            paused(facts.paused),
            facts.workers.to_string(),
            unserved.collect::<Vec<_>>().join(", "),
        ]
    });
    output::line(&output::table(["actor", "paused", "workers", "ready and not served"], rows))?;
    Ok(Exit::Done)
}

fn paused(paused: bool) -> String {
    if paused { "paused" } else { "" }.to_owned()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Paused,
    Running,
}

#[derive(Serialize)]
struct QueuePause {
    queue: QueueName,
    paused: bool,
    changed: bool,
}

#[derive(Serialize)]
struct ActorPause {
    actor: ActorName,
    paused: bool,
    changed: bool,
}

#[derive(Serialize)]
struct ModeChange {
    queue: QueueName,
    mode: QueueMode,
    changed: bool,
    /// Ready jobs with a fairness key that were put into the one order of the queue.
    merged: u64,
}

/// Sets the mode of a queue and says what that did.
async fn set_mode(args: QueueSetArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
    let mode = match args.mode {
        ModeArg::StrictFifo => QueueMode::StrictFifo,
        ModeArg::RoundRobin => QueueMode::RoundRobin,
    };
    let client = connect(&database).await?;
    let QueueChange { changed, merged } =
        client.set_queue(args.queue.as_str(), mode).await.map_err(failure)?;
    if args.output.json {
        output::json(&ModeChange { queue: args.queue, mode, changed, merged })?;
        return Ok(Exit::Done);
    }
    let verb = if changed { "is" } else { "was" };
    let already = if changed { "" } else { " already" };
    let jobs = match merged {
        0 => String::new(),
        1 => "; 1 ready job with a fairness key joined its order".to_owned(),
        _ => format!("; {merged} ready jobs with a fairness key joined its order"),
    };
    let text = format!("the queue `{}` {verb} in {} mode{already}{jobs}", args.queue, mode.as_str());
    output::line(&output::plain(&text))?;
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct PeriodChange {
    actor: ActorName,
    changed: bool,
}

/// Sets how long an actor's finished jobs stay among the others.
async fn set_periods(args: ActorSetArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
    let changes = ActorChanges {
        hot_period: args.hot_period.map(|PeriodArg(period)| period),
        failed_hot_period: args.failed_hot_period.map(|PeriodArg(period)| period),
    };
    if changes == ActorChanges::default() {
        return Err(Failure::usage("set what? say --hot-period, --failed-hot-period, or both"));
    }
    let client = connect(&database).await?;
    let changed = client.set_actor(args.actor.as_str(), changes).await.map_err(failure)?;
    if args.output.json {
        output::json(&PeriodChange { actor: args.actor, changed })?;
        return Ok(Exit::Done);
    }
    let what = if changed { "is set" } else { "was set so already" };
    output::line(&output::plain(&format!("the actor `{}` {what}", args.actor)))?;
    Ok(Exit::Done)
}

async fn set_queue(args: QueueArgs, database: DatabaseSettings, wanted: Wanted) -> Result<Exit, Failure> {
    let client = connect(&database).await?;
    let changed = set(&client.queue(args.queue.as_str()), wanted).await?;
    if args.output.json {
        output::json(&QueuePause { queue: args.queue, paused: wanted == Wanted::Paused, changed })?;
        return Ok(Exit::Done);
    }
    said(&format!("the queue `{}`", args.queue), wanted, changed)
}

async fn set_actor(args: ActorArgs, database: DatabaseSettings, wanted: Wanted) -> Result<Exit, Failure> {
    let client = connect(&database).await?;
    let changed = set(&client.actor(args.actor.as_str()), wanted).await?;
    if args.output.json {
        output::json(&ActorPause { actor: args.actor, paused: wanted == Wanted::Paused, changed })?;
        return Ok(Exit::Done);
    }
    said(&format!("the actor `{}`", args.actor), wanted, changed)
}

/// Returns whether it was otherwise before.
async fn set(part: &LaneControl, wanted: Wanted) -> Result<bool, Failure> {
    let changed = match wanted {
        Wanted::Paused => part.pause().await,
        Wanted::Running => part.resume().await,
    };
    changed.map_err(failure)
}

fn failure(error: OperateError) -> Failure {
    match error {
        OperateError::Store(error) => error.into(),
        other => Failure::usage(other.to_string()),
    }
}

fn said(part: &str, wanted: Wanted, changed: bool) -> Result<Exit, Failure> {
    let text = match (wanted, changed) {
        (Wanted::Paused, true) => "is paused: none of its jobs is claimed, what runs goes on",
        (Wanted::Paused, false) => "was paused already",
        (Wanted::Running, true) => "is resumed",
        (Wanted::Running, false) => "was not paused",
    };
    output::line(&output::plain(&format!("{part} {text}")))?;
    Ok(Exit::Done)
}
