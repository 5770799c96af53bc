//! The command line as clap types: what can be said, nothing that is done.

mod bench;
mod database;
mod demo;
mod enqueue;
mod job;
mod lane;
mod migrate;
mod output;
mod prune;
mod worker;

use clap::{Parser, Subcommand};

pub(crate) use bench::{
    BenchCommand, ChurnArgs, DepthArgs, DrainArgs, EnqueueBenchArgs, LatencyArgs, ModesArg, ScaleArgs,
    StateArg,
};
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
pub(crate) use worker::WorkerArgs;

/// Background jobs in the PostgreSQL you already run.
#[derive(Parser, Debug)]
#[command(
    name = "taskq",
    version,
    propagate_version = true,
    after_help = "Exit codes: 0 done, 1 the operation failed, 2 wrong use or bad input, 3 not found, \
                  4 no connection, 5 schema missing, too old or too new."
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
    Workers(OutputArgs),
    /// Say which worker leads, how its sweeps stand and what is set; exit code 1 when none leads.
    Leader(OutputArgs),
    /// Look for what needs a person; exit code 1 when something does.
    #[command(after_help = "\
Checks the schema, the role's privileges, the settings, the default isolation, poolers, clocks, autovacuum, dead rows, \
old transactions, prepared ones, replication slots, sweeps that are behind, the archive, jobs that nobody serves, and the feed \
of events. Each problem comes with its remedy. It changes nothing.")]
    Doctor(OutputArgs),
    /// Count jobs by status; list live workers and the actors that nobody serves.
    Stats(OutputArgs),
    /// Measure what taskq does with a server, as ratios to plain SQL on the same server.
    #[command(subcommand)]
    Bench(BenchCommand),
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
