//! `taskq demo` and `taskq dev`.

use std::path::PathBuf;

use clap::Args;

use super::OutputArgs;

/// What `taskq demo` is told.
#[derive(Args, Debug)]
#[command(
    after_help = "Hidden entries, directories named `target`, symbolic links and special files are left \
                        out. With a DSN the demo runs there instead of on a private server, and leaves its jobs \
                        in the queue `demo`; it does not migrate.\n\nA file that cannot be read is a failed job, which the summary reports; the demo \
                        itself has then still succeeded: its exit code is 0 once every job has ended.\n\nExample:\n  taskq demo src --keep"
)]
pub(crate) struct DemoArgs {
    /// The directory whose files become jobs, one each.
    #[arg(default_value = ".", hide_default_value = true, value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Leave the private server running afterwards, and say how to look and how to stop it.
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What `taskq dev` is told.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  taskq dev --json   # {\"dsn\": …, \"schema\": …, \"version\": …}")]
pub(crate) struct DevArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
