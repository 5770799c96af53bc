//! `taskq queue …` and `taskq actor …`.

use clap::{Args, Subcommand, ValueEnum};
use taskq::{ActorName, QueueName};

use super::OutputArgs;

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

/// Names an actor.
#[derive(Args, Debug)]
pub(crate) struct ActorArgs {
    /// The actor. It need not have jobs yet.
    pub(crate) actor: ActorName,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
