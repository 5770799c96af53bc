//! The command line as clap types: what can be said, nothing that is done.

mod bench;
mod completions;
mod database;
mod demo;
mod enqueue;
mod job;
mod lane;
mod migrate;
mod output;
mod prune;
mod reference;
mod worker;

use clap::{Parser, Subcommand};

pub(crate) use bench::{
    BenchCommand, ChurnArgs, DepthArgs, DrainArgs, EnqueueBenchArgs, LatencyArgs, ModesArg, ScaleArgs,
    StateArg,
};
pub(crate) use completions::{CompletionsArgs, ShellArg};
pub(crate) use database::DatabaseArgs;
pub(crate) use demo::{DemoArgs, DevArgs};
pub(crate) use enqueue::{EnqueueArgs, OnFinishedArg};
pub(crate) use job::{CancelArgs, JobCommand, ListArgs, RetryArgs, Selection, ShowArgs, TailArgs, WaitArgs};
pub(crate) use lane::{
    ActorArgs, ActorCommand, ActorSetArgs, ModeArg, PeriodArg, QueueArgs, QueueCommand, QueueSetArgs,
};
pub(crate) use migrate::{KindArg, MigrateCommand, PhaseArg};
pub(crate) use output::OutputArgs;
pub(crate) use prune::PruneArgs;
pub(crate) use reference::{PageArg, ReferenceArgs};
pub(crate) use worker::WorkerArgs;

/// Background jobs in the PostgreSQL you already run.
#[derive(Parser, Debug)]
#[command(
    name = "taskq",
    version,
    propagate_version = true,
    after_help = "\
First steps:
  taskq demo                                          see it at work, on a server of its own
  taskq dev                                           keep such a server; prints the DSN to export
  taskq migrate up                                    make the schema in your database
  taskq worker --queue default --actor sum=sha256sum  run the actor `sum` as a program
  taskq enqueue sum '\"some text\"'                     enqueue a job for it; prints its id
  taskq job show ID                                   see what became of it
  taskq doctor                                        see what needs a person

`taskq help VERB` says more of each, with examples. Facts go to standard output, as JSON with --json; notes and the one \
line of an error go to standard error.

Exit codes: 0 done, 1 the operation failed, 2 wrong use or bad input, 3 not found, 4 no connection, 5 schema missing, too \
old or too new.

Environment: TASKQ_PG_DSN, TASKQ_SCHEMA_NAME for every verb; \
TASKQ_LOG and TASKQ_EVENT_RETENTION_… for `taskq worker`; COLUMNS for the width of tables off a terminal."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The verbs.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Show taskq at work: a private server, a worker, and one job for each file of a directory.
    Demo(DemoArgs),
    /// Start a private server for development, print its DSN and keep it until Ctrl-C.
    Dev(DevArgs),
    /// Bring the database's schema up to date, say how it stands, grant roles what they need.
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Run jobs with programs as actors.
    Worker(WorkerArgs),
    /// Enqueue one job and print its id.
    Enqueue(EnqueueArgs),
    /// Look at jobs, cancel them, make them ready again.
    #[command(subcommand)]
    Job(JobCommand),
    /// Look at queues, pause and resume them.
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Look at actors, set how long their finished jobs stay, pause and resume them.
    #[command(subcommand)]
    Actor(ActorCommand),
    /// Delete jobs for good that ended long ago, or say how many they are.
    Prune(PruneArgs),
    /// List the worker sessions, lost ones included.
    #[command(
        after_help = "Examples:\n  taskq workers\n  taskq workers --json | jq '.[] | select(.state == \"lost\")'"
    )]
    Workers(OutputArgs),
    /// Say which worker leads, how its sweeps stand and what is set; exit code 1 when none leads.
    #[command(after_help = "Example:\n  taskq leader --json | jq '.sweeps[] | {sweep, behind, last_error}'")]
    Leader(OutputArgs),
    /// Look for what needs a person; exit code 1 when something does.
    #[command(after_help = "\
Checks the schema, the role's privileges, the settings, the default isolation, poolers, clocks, autovacuum, dead rows, \
old transactions, prepared ones, replication slots, sweeps that are behind, the archive, jobs that nobody serves, and the feed \
of events. Each problem comes with its remedy. It changes nothing. Example:
  taskq doctor --json | jq '.checks[] | select(.verdict == \"problem\") | .remedy'")]
    Doctor(OutputArgs),
    /// Count jobs by status; list live workers and the actors that nobody serves.
    #[command(
        after_help = "Counts stop at a bound and say so, whatever the table holds. Example:\n  taskq stats --json"
    )]
    Stats(OutputArgs),
    /// Measure what taskq does with a server, as ratios to plain SQL on the same server.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Print the script with which a shell completes the words of this command line.
    Completions(CompletionsArgs),
    /// Print a page of the reference as Markdown.
    #[command(hide = true)]
    Reference(ReferenceArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
