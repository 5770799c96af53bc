//! Chores of this repository: `cargo xtask test`, `cargo xtask pg 15`, `cargo xtask mutate`, `cargo xtask soak`,
//! `cargo xtask gen`, `cargo xtask tidy`.

mod generate;
mod mutate;
mod pg;
mod soak;
mod suite;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

/// Chores of this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// Run the tests on a PostgreSQL server started for them.
    Test {
        /// The server: a major version (18 is fetched, others must be installed), auto, fetch or a directory.
        /// Without it, what `TASKQ_PG` names.
        #[arg(long, value_name = "PG")]
        pg: Option<pg::Choice>,
        #[command(flatten)]
        suite: suite::Selection,
    },
    /// Run the tests on one major version of PostgreSQL: 18 is fetched, others must be installed.
    Pg {
        /// The major version, 15 to 18.
        #[arg(value_name = "MAJOR")]
        major: pg::Choice,
        #[command(flatten)]
        suite: suite::Selection,
    },
    /// Break the code as `mutations/*.patch` say and see that a test notices, on the PostgreSQL that `TASKQ_PG` names.
    Mutate(mutate::Selection),
    /// Run the long scenarios of faults, on the PostgreSQL that `TASKQ_PG` names, and print what they measured.
    Soak(soak::Selection),
    /// Write the pages of the reference that the command line makes of itself.
    Gen {
        /// Only say whether they are up to date.
        #[arg(long)]
        check: bool,
    },
    /// Check what neither compiler nor linter sees: the size of files, the headers of SQL functions.
    Tidy,
}

fn main() -> ExitCode {
    match run(Chore::parse()) {
        Ok(code) => code,
        Err(error) => {
            report(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> anyhow::Result<ExitCode> {
    let root = workspace()?;
    match chore {
        Chore::Test { pg, suite } => suite::run(&root, &pg.map_or_else(pg::Choice::from_env, Ok)?, &suite),
        Chore::Pg { major, suite } => suite::run(&root, &major, &suite),
        Chore::Mutate(selection) => mutate::run(&root, &selection),
        Chore::Soak(selection) => soak::run(&root, &selection),
        Chore::Gen { check } => {
            let stale = generate::run(&root, check)?;
            for page in &stale {
                report(&format!("{page}: {}", if check { "is out of date" } else { "written" }));
            }
            Ok(if check && !stale.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Chore::Tidy => {
            let faults = tidy::check(&root)?;
            for fault in &faults {
                report(fault);
            }
            Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

/// The root of the repository, from what cargo says of this package.
fn workspace() -> anyhow::Result<PathBuf> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").context("run it as `cargo xtask`")?;
    Ok(PathBuf::from(package).parent().context("the package has no parent directory")?.to_owned())
}

/// Tells the person at the terminal; standard output belongs to the tests.
#[expect(clippy::print_stderr, reason = "this is a command for people")]
fn report(line: &str) {
    eprintln!("{line}");
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Chore::command().debug_assert();
    }
}
