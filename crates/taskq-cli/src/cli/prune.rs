//! `taskq prune`.

use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use clap::value_parser;
use taskq::{ActorName, QueueName, Status};

use super::OutputArgs;
use crate::parse;

/// What `taskq prune` is told.
#[derive(Args, Debug)]
#[command(after_help = "\
Deletes jobs that have ended, with their payloads, results and attempts, whether they are archived or not. Nobody has to \
do so regularly: the leader archives finished jobs after their hot period and drops each month of the archive after \
archive_retention_period. It goes through the jobs in batches, oldest first, each committed by itself, and can be repeated.

An idempotency key outlives its job: an enqueue with it is answered that there was one, until the key expires.

Example:
  taskq prune --older-than 30d --queue mail --dry-run")]
pub(crate) struct PruneArgs {
    /// Only jobs that ended at least so long ago, such as 30d.
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    pub(crate) older_than: Duration,
    /// Only jobs with this status; may be given several times.
    #[arg(long = "status", value_name = "STATUS")]
    pub(crate) statuses: Vec<Status>,
    /// Only jobs of this queue.
    #[arg(long)]
    pub(crate) queue: Option<QueueName>,
    /// Only jobs of this actor.
    #[arg(long)]
    pub(crate) actor: Option<ActorName>,
    /// Only jobs with this label.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) tag: Option<String>,
    /// The most jobs to delete [default: no limit].
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Count what would be deleted, and delete nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
