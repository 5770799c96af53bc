//! Running the tests, all of them on one server.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::Context;
use clap::Args;
use taskq_testkit::{Options, PG_VARIABLE, PgSource, PrivateServer, TEST_DSN_VARIABLE};

use crate::pg::Choice;
use crate::report;

/// Which tests, and how cargo builds them.
#[derive(Args)]
pub(crate) struct Selection {
    /// Refuse to change Cargo.lock.
    #[arg(long)]
    locked: bool,
    /// What the test runner gets: `-p taskq-core`, a test's name and the like. Leaves the documentation tests out.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Starts a server, runs the tests on it and stops it; the tests' exit code is the result.
pub(crate) fn run(root: &Path, choice: &Choice, selection: &Selection) -> anyhow::Result<ExitCode> {
    let installation = choice.resolve()?;
    let server = PrivateServer::start_blocking(&Options::for_tests(PgSource::from(&installation)))?;
    report(&format!("testing on PostgreSQL {} from {}", server.version(), server.bin_dir().display()));

    let cargo = |subcommand: &[&str]| {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(root).args(subcommand).args(selection.locked.then_some("--locked"));
        // The DSN for tests that share the server, the directory for those that start their own.
        command.env(TEST_DSN_VARIABLE, server.dsn()).env(PG_VARIABLE, server.bin_dir());
        command
    };

    let nextest = runs(&mut cargo(&["nextest", "--version"]));
    let mut tests = if nextest {
        cargo(&["nextest", "run", "--no-tests=pass"])
    } else {
        cargo(&["test", "--all-targets"])
    };
    // Without a package named, cargo would test the default one.
    if !names_a_package(&selection.arguments) {
        tests.arg("--workspace");
    }
    let status = run_to_the_end(tests.args(&selection.arguments))?;
    if !status.success() || !selection.arguments.is_empty() {
        return Ok(exit_code(status));
    }
    Ok(exit_code(run_to_the_end(&mut cargo(&["test", "--workspace", "--doc"]))?))
}

/// Whether the command is there.
fn runs(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn names_a_package(arguments: &[String]) -> bool {
    arguments.iter().take_while(|argument| *argument != "--").any(|argument| {
        argument == "--package" || argument.starts_with("--package=") || argument.starts_with("-p")
    })
}

fn run_to_the_end(command: &mut Command) -> anyhow::Result<ExitStatus> {
    command.status().with_context(|| format!("cannot run {}", command.get_program().display()))
}

/// The command's own code; one that a signal ended has none.
fn exit_code(status: ExitStatus) -> ExitCode {
    status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_package_is_noticed_among_cargos_arguments_only() {
        let named = |arguments: &[&str]| {
            names_a_package(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert!(named(&["-p", "taskq"]) && named(&["-ptaskq"]) && named(&["x", "--package=taskq"]));
        assert!(!named(&["claim"]) && !named(&["--", "-p"]));
    }
}
