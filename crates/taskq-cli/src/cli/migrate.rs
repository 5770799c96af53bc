//! `taskq migrate …`.

use clap::{Args, Subcommand, ValueEnum};

use super::OutputArgs;

/// Bringing the schema up to date.
#[derive(Subcommand, Debug)]
pub(crate) enum MigrateCommand {
    /// Apply what is missing.
    Up(UpArgs),
    /// List the migrations and whether they are applied.
    Status(StatusArgs),
    /// Say what `up` would do, and change nothing.
    Plan(PlanArgs),
    /// Check that what is applied is what this program knows.
    Verify(VerifyArgs),
}

/// When a migration may run: before the new program does, or after the old one is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum PhaseArg {
    /// Safe before the new program runs.
    Pre,
    /// Only after the old program is gone.
    Post,
}

/// What `taskq migrate up` is told.
#[derive(Args, Debug)]
pub(crate) struct UpArgs {
    /// Only this phase [default: both].
    #[arg(long)]
    pub(crate) phase: Option<PhaseArg>,
    /// Print the SQL instead of running it.
    #[arg(long, conflicts_with = "json")]
    pub(crate) sql: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What `taskq migrate plan` is told.
#[derive(Args, Debug)]
pub(crate) struct PlanArgs {
    /// Only this phase [default: both].
    #[arg(long)]
    pub(crate) phase: Option<PhaseArg>,
    /// Print the SQL.
    #[arg(long, conflicts_with = "json")]
    pub(crate) sql: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What `taskq migrate status` is told.
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What `taskq migrate verify` is told.
#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
