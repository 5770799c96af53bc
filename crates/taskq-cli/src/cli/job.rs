//! `taskq job …`.

use std::time::Duration;

use clap::{Args, Subcommand, value_parser};
use taskq::{ActorName, JobId, QueueName, Status};

use super::OutputArgs;
use crate::parse;

/// Looking at jobs.
#[derive(Subcommand, Debug)]
pub(crate) enum JobCommand {
    /// List jobs, newest first.
    List(ListArgs),
    /// Show everything about one job.
    Show(ShowArgs),
    /// Wait for a job's end and print its result.
    Wait(WaitArgs),
}

/// What `taskq job list` is told.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Only jobs with this status.
    #[arg(long)]
    pub(crate) status: Option<Status>,
    /// Only jobs of this queue.
    #[arg(long)]
    pub(crate) queue: Option<QueueName>,
    /// Only jobs of this actor.
    #[arg(long)]
    pub(crate) actor: Option<ActorName>,
    /// Only jobs older than this one: the last of the page before.
    #[arg(long, value_name = "ID")]
    pub(crate) before: Option<JobId>,
    /// The most jobs to list.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u32).range(1..=1_000))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What `taskq job show` is told.
#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// The job.
    pub(crate) id: JobId,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What `taskq job wait` is told.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 it succeeded, 1 it ended otherwise or the time is over, 3 there is no \
                        such job."
)]
pub(crate) struct WaitArgs {
    /// The job.
    pub(crate) id: JobId,
    /// How long to wait [default: for ever].
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
