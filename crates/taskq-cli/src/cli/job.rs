//! `taskq job …`.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, value_parser};
use taskq::{ActorName, EventCursor, JobId, QueueName, Status};

use super::OutputArgs;
use crate::parse;

/// Looking at jobs, and deciding what becomes of them.
#[derive(Subcommand, Debug)]
pub(crate) enum JobCommand {
    /// List jobs, newest first.
    List(ListArgs),
    /// Show everything about one job.
    Show(ShowArgs),
    /// Wait for a job's end and print its result.
    Wait(WaitArgs),
    /// Print what happens to jobs, as it happens.
    Tail(TailArgs),
    /// Cancel jobs: those that have not started end at once, the workers of those that run are told.
    Cancel(CancelArgs),
    /// Make jobs that have ended ready again, with a fresh budget of attempts.
    Retry(RetryArgs),
}

/// What `taskq job list` is told.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  taskq job list --status failed --queue mail
  taskq job list --limit 1000 --json | jq -r '.[].id'
  taskq job list --before 0190b6a5-8c1f-7000-8000-000000000000   # the next page")]
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
#[command(after_help = "\
Example:
  taskq job show 0190b6a5-8c1f-7000-8000-000000000000 --json | jq .error")]
pub(crate) struct ShowArgs {
    /// The job.
    pub(crate) id: JobId,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What `taskq job wait` is told.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 it succeeded, 1 it ended otherwise or the time is over, 3 there is no such job.

Example:
  taskq job wait $(taskq enqueue report 2030) --timeout 5m"
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

/// What `taskq job tail` is told.
#[derive(Args, Debug)]
#[command(after_help = "\
Prints one line for each event: its place, when it happened, the job, what happened and what else there is to say. \
With --json each line is a JSON object. Its place (cursor) is where --from goes on.

Nothing can appear behind what was printed: an event is told once every transaction that began before it is over, so \
a transaction that is left open for long holds the lines back.

Which events there are says the setting event_level: by default what is out of the ordinary, with \"all\" every \
transition. Set it with SELECT taskq.set_setting('event_level', '\"all\"'). They are kept for 7 days by default.

Examples:
  taskq job tail --kind failed --kind crashed
  taskq job tail --from-start --no-follow --json > events.jsonl")]
pub(crate) struct TailArgs {
    /// Only events of these jobs.
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<JobId>,
    /// Only events of this kind, such as retried; may be given several times.
    #[arg(long = "kind", value_name = "KIND", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) kinds: Vec<String>,
    /// Begin behind this place, as an earlier line told it, instead of with what happens from now on.
    #[arg(long, value_name = "CURSOR", conflicts_with = "from_start")]
    pub(crate) from: Option<EventCursor>,
    /// Begin with the oldest event that is kept.
    #[arg(long)]
    pub(crate) from_start: bool,
    /// End when everything has been printed that has happened by now, instead of waiting for more.
    #[arg(long)]
    pub(crate) no_follow: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Which jobs a verb is about: those named, or those that match a filter.
#[derive(Args, Debug)]
pub(crate) struct Selection {
    /// The jobs.
    #[arg(value_name = "ID", conflicts_with_all = ["statuses", "queue", "actor", "tag", "limit", "all"])]
    pub(crate) ids: Vec<JobId>,
    /// All jobs with this status; may be given several times.
    #[arg(long = "status", value_name = "STATUS")]
    pub(crate) statuses: Vec<Status>,
    /// All jobs of this queue.
    #[arg(long)]
    pub(crate) queue: Option<QueueName>,
    /// All jobs of this actor.
    #[arg(long)]
    pub(crate) actor: Option<ActorName>,
    /// All jobs with this label.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) tag: Option<String>,
    /// The most jobs to change by a filter [default: no limit].
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// All jobs whatever: what a filter with nothing in it would mean.
    #[arg(long, conflicts_with_all = ["statuses", "queue", "actor", "tag"])]
    pub(crate) all: bool,
}

/// What `taskq job cancel` is told.
#[derive(Args, Debug)]
#[command(after_help = "\
Name the jobs by their ids, or say which by --status, --queue, --actor and --tag: every one that is given narrows. \
A filter goes through the jobs in batches, oldest first, each committed by itself; it can be repeated.

Outcomes of ids: cancelled (it had not started and has ended), requested (it runs, and its worker is told), \
finished (it had ended already, nothing was done), not_found.

A job that runs is asked to end and, after the worker's grace, forced to. If it succeeds all the same, it has \
succeeded; any other end is cancelled.

Exit codes: 0 every job that was named exists, also if it had ended already; 3 one does not exist, the others \
are cancelled.

Examples:
  taskq job cancel 0190b6a5-8c1f-7000-8000-000000000000 --reason 'not needed'
  taskq job cancel --queue mail --tag campaign-7")]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Why, to be kept as the error of jobs that end at once.
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What `taskq job retry` is told.
#[derive(Args, Debug)]
#[command(after_help = "\
Name the jobs by their ids, or say which by --status, --queue, --actor and --tag: every one that is given narrows. \
A filter without --status means failed, crashed and abandoned jobs; cancelled and succeeded ones are made ready \
again only when --status or an id names them, archived ones only when an id does. A filter goes through the jobs in batches, oldest first, each \
committed by itself.

A job that is retried loses its deadline, its result and its count of attempts.

Outcomes of ids: retried (it is ready again), unfinished (it has not ended, nothing was done), not_found.

Exit codes: 0 every job that was named exists, also if it had not ended; 3 one does not exist, the others are \
retried.

Examples:
  taskq job retry 0190b6a5-8c1f-7000-8000-000000000000
  taskq job retry --actor mail.welcome --limit 100")]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
