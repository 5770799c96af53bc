//! `taskq completions`.

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::cli::{Cli, CompletionsArgs, ShellArg};
use crate::exit::{Exit, Failure};
use crate::output;

/// Prints the script with which a shell completes what comes behind `taskq`.
pub(super) fn run(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let shell = match args.shell {
        ShellArg::Bash => Shell::Bash,
        ShellArg::Zsh => Shell::Zsh,
        ShellArg::Fish => Shell::Fish,
        ShellArg::PowerShell => Shell::PowerShell,
    };
    // Into memory first: the generator panics where it cannot write, as when a reader goes away.
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "taskq", &mut script);
    output::line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Exit::Done)
}
