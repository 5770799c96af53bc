//! `taskq reference`: the pages that are made from the command line's own description.

use clap::{Args, ValueEnum};

/// What `taskq reference` is told.
#[derive(Args, Debug)]
pub(crate) struct ReferenceArgs {
    /// The page.
    pub(crate) page: PageArg,
}

/// A page of the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum PageArg {
    /// Every verb with its options.
    Cli,
    /// Every setting with its places: the file, the flag, the variable.
    Settings,
}
