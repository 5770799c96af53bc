//! `taskq queue …` and `taskq actor …`.

use clap::{Args, Subcommand};
use taskq::{ActorName, QueueName};

use super::OutputArgs;

/// Looking at queues, and holding them back.
#[derive(Subcommand, Debug)]
pub(crate) enum QueueCommand {
    /// List the queues that have jobs, settings or workers.
    List(OutputArgs),
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

/// Names an actor.
#[derive(Args, Debug)]
pub(crate) struct ActorArgs {
    /// The actor. It need not have jobs yet.
    pub(crate) actor: ActorName,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
