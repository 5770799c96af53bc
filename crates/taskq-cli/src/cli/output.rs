//! How facts are printed.

use clap::Args;

/// How facts are printed.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct OutputArgs {
    /// Print JSON instead of text for people.
    #[arg(long)]
    pub(crate) json: bool,
}
