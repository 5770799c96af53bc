//! The `taskq` command line: parse, dispatch, exit code.

mod bench;
mod cli;
mod commands;
mod config;
mod demo;
mod exit;
mod logging;
mod output;
mod parse;
mod program;
mod reference;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use cli::Cli;
use exit::{Exit, Failure};

fn main() -> ExitCode {
    match run() {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if let Some(line) = failure.line() {
                output::note(&line);
            }
            failure.exit().into()
        }
    }
}

fn run() -> Result<Exit, Failure> {
    let arguments: Vec<_> = env::args_os().collect();
    // Before the command line is looked at in full: a worker starts this binary for every program it runs.
    if let Some(role) = program::Role::of(&arguments) {
        return role.run();
    }
    if bench::is_asked_for(&arguments) {
        return bench::run_worker();
    }
    match parse_arguments(arguments) {
        Ok((cli, matches)) => commands::dispatch(cli, &matches),
        Err(ended) => ended,
    }
}

/// Reads the command line. A request for help or the version has been answered when this fails with
/// [`Exit::Done`].
fn parse_arguments(arguments: Vec<OsString>) -> Result<(Cli, clap::ArgMatches), Result<Exit, Failure>> {
    Cli::command()
        .try_get_matches_from(arguments)
        .and_then(|matches| Cli::from_arg_matches(&matches).map(|cli| (cli, matches)))
        .map_err(|error| refuse(&error))
}

fn refuse(error: &clap::Error) -> Result<Exit, Failure> {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            output::line(error.render().to_string().trim_end()).map(|()| Exit::Done)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            output::note(error.render().to_string().trim_end());
            Ok(Exit::Usage)
        }
        _ => Err(Failure::usage(usage_line(&error.render().to_string()))),
    }
}

/// Makes one line of clap's paragraphs: what is wrong, then any tip; the usage stays in the help.
fn usage_line(rendered: &str) -> String {
    let paragraphs = rendered.split("\n\n").map(str::trim).filter(|paragraph| {
        !paragraph.starts_with("Usage:") && !paragraph.starts_with("For more information")
    });
    let mut line = String::new();
    for paragraph in paragraphs {
        let paragraph = paragraph.strip_prefix("error: ").unwrap_or(paragraph);
        if !line.is_empty() {
            line.push_str("; ");
        }
        line.push_str(&paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    line.push_str("; see --help");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usage_error_is_one_line_that_names_the_flag() {
        let error =
            Cli::command().try_get_matches_from(["taskq", "enqueue", "a", "--in", "soon"]).unwrap_err();
        let line = usage_line(&error.render().to_string());
        assert!(line.contains("--in") && line.contains("90s") && !line.contains('\n'), "{line}");
        assert!(!line.starts_with("error") && line.ends_with("see --help"), "{line}");
    }
}
