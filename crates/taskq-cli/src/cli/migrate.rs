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
    /// Grant a role of the server what it needs for what it is for, and nothing else.
    #[command(after_help = "\
The role must exist and be no superuser. Kinds:
  worker        runs jobs and leads; enqueues, looks, cancels and retries jobs, pauses and resumes lanes
  enqueue-only  enqueues, and sees nothing of the jobs
  read-only     looks at everything, and changes nothing
  operator      as worker, without running jobs; sets queues and settings

It is run as the schema's owner. The role is noted, and later versions grant it what they need more. Example:
  taskq migrate grant worker app_worker")]
    Grant(GrantArgs),
    /// Take back what a role was granted.
    Revoke(RevokeArgs),
    /// List the roles that were granted something, and what is wrong with each; exit code 1 when something is.
    Grants(OutputArgs),
}

/// What a role is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum KindArg {
    /// Runs jobs and leads.
    Worker,
    /// Enqueues, and sees nothing of the jobs.
    EnqueueOnly,
    /// Looks at everything, and changes nothing.
    ReadOnly,
    /// Looks, enqueues, decides; runs no jobs.
    Operator,
}

/// What `taskq migrate grant` is told.
#[derive(Args, Debug)]
pub(crate) struct GrantArgs {
    /// What the role is for.
    #[arg(hide_possible_values = true)]
    pub(crate) kind: KindArg,
    /// The role.
    pub(crate) role: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What `taskq migrate revoke` is told.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit code 3 when it was granted nothing. Example:\n  taskq migrate revoke app_worker"
)]
pub(crate) struct RevokeArgs {
    /// The role.
    pub(crate) role: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
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
#[command(after_help = "\
Safe to repeat, and to run many times at once. Files of the phase `pre` are safe while the old program still runs, those of \
`post` only after it is gone. Needs the rights of the schema's owner, and a connection to the server itself rather than to a \
pooler in transaction mode. Examples:
  taskq migrate up --phase pre       # before a deployment
  taskq migrate up --phase post      # after it
  taskq migrate up --sql | psql      # the same, by somebody else")]
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
#[command(after_help = "Example:\n  taskq migrate plan --sql | less")]
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
#[command(after_help = "Example:\n  taskq migrate status --json | jq .functions")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What `taskq migrate verify` is told.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit code 1 when something was changed by hand, is not applied, or is not known. Example:\n  taskq migrate verify --json"
)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
