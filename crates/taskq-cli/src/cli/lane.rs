//! `taskq queue …` and `taskq actor …`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use taskq::{ActorName, QueueName};

use super::OutputArgs;
use crate::parse;

/// Looking at queues, setting their mode, and holding them back.
#[derive(Subcommand, Debug)]
pub(crate) enum QueueCommand {
    /// List the queues that have jobs, settings or workers.
    List(OutputArgs),
    /// Set how a queue hands out its jobs; workers follow with their next claim.
    Set(QueueSetArgs),
    /// Hold back a queue: none of its jobs is claimed any more, what runs goes on, jobs can be enqueued.
    Pause(QueueArgs),
    /// Hand out a queue's jobs again.
    Resume(QueueArgs),
}

/// Looking at actors, and holding them back.
#[derive(Subcommand, Debug)]
pub(crate) enum ActorCommand {
    /// List the actors that live workers serve, that are paused, or that have ready jobs and nobody to serve them.
    List(OutputArgs),
    /// Set how long an actor's finished jobs stay among the others before they are archived.
    Set(ActorSetArgs),
    /// Hold back an actor: none of its jobs is claimed any more, whatever their queue.
    Pause(ActorArgs),
    /// Hand out an actor's jobs again.
    Resume(ActorArgs),
}

/// Names a queue.
#[derive(Args, Debug)]
pub(crate) struct QueueArgs {
    /// The queue. It need not have jobs yet.
    pub(crate) queue: QueueName,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What `taskq queue set` is told.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  taskq queue set imports --mode round_robin")]
pub(crate) struct QueueSetArgs {
    /// The queue. It need not have jobs yet.
    pub(crate) queue: QueueName,
    /// The order in which it hands out its jobs. A queue that was never set is in `strict_fifo` mode.
    #[arg(long)]
    pub(crate) mode: ModeArg,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The order in which a queue hands out its jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ModeArg {
    /// One order across the queue: priority, then time. Fairness keys are refused.
    StrictFifo,
    /// Actors and fairness keys take turns, one job each, however many jobs each has; in each, priority, then time. Jobs
    /// that are there already are one lane of their actor.
    RoundRobin,
}

/// What `taskq actor set` is told.
#[derive(Args, Debug)]
#[command(after_help = "\
A period is a duration of at least 1m, or `default` for what the settings hot_period and failed_hot_period say (1h and \
24h unless set otherwise). Of jobs that have finished already, the leader changes the time within seconds.")]
pub(crate) struct ActorSetArgs {
    /// The actor. It need not have jobs yet.
    pub(crate) actor: ActorName,
    /// How long its jobs that succeeded or were cancelled stay.
    #[arg(long, value_name = "PERIOD", value_parser = period)]
    pub(crate) hot_period: Option<PeriodArg>,
    /// How long its jobs that failed, crashed or were abandoned stay.
    #[arg(long, value_name = "PERIOD", value_parser = period)]
    pub(crate) failed_hot_period: Option<PeriodArg>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A period, or what the settings say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PeriodArg(pub(crate) Option<Duration>);

fn period(text: &str) -> Result<PeriodArg, String> {
    if text == "default" {
        Ok(PeriodArg(None))
    } else {
        parse::duration(text).map(|period| PeriodArg(Some(period)))
    }
}

/// Names an actor.
#[derive(Args, Debug)]
pub(crate) struct ActorArgs {
    /// The actor. It need not have jobs yet.
    pub(crate) actor: ActorName,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
