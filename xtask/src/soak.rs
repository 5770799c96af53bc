//! Running the long scenarios of faults, one process each, and saying what they measured.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use taskq_testkit::{PG_VARIABLE, TEST_DSN_VARIABLE};

use crate::pg::Choice;
use crate::report;

/// What the scenarios write in front of what they measured.
const FACT: &str = "fact: ";

/// How a test of the binary is marked that is one of its child processes and no scenario.
const CHILD: &str = "::member";

/// Which scenarios, and how.
#[derive(Args)]
pub(crate) struct Selection {
    /// Only those whose name contains this.
    #[arg(default_value = "")]
    name: String,
    /// Run the short forms.
    #[arg(long)]
    short: bool,
    /// Build with the dev profile instead of the release profile.
    #[arg(long)]
    debug: bool,
    /// Say what there is, and run nothing.
    #[arg(long)]
    list: bool,
}

struct Outcome {
    scenario: String,
    facts: Vec<(String, String)>,
    passed: bool,
    took: Duration,
}

/// Runs the scenarios in turn and prints a table of them; fails when one does.
pub(crate) fn run(root: &Path, selection: &Selection) -> anyhow::Result<ExitCode> {
    let programs = Choice::from_env()?.resolve()?.bin_dir().to_owned();
    let soak = Soak { root: root.to_owned(), programs, short: selection.short, debug: selection.debug };
    let mut scenarios = soak.list()?;
    scenarios.retain(|scenario| scenario.contains(&selection.name));
    if scenarios.is_empty() {
        bail!("no scenario has a name with {:?}", selection.name);
    }
    if selection.list {
        for scenario in &scenarios {
            report(scenario);
        }
        return Ok(ExitCode::SUCCESS);
    }

    let outcomes = scenarios.iter().map(|scenario| soak.run(scenario)).collect::<anyhow::Result<Vec<_>>>()?;
    print(&table(&outcomes));
    let failed = outcomes.iter().filter(|outcome| !outcome.passed).count();
    if failed > 0 {
        report(&format!("{failed} of {} scenarios failed", outcomes.len()));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

struct Soak {
    root: PathBuf,
    programs: PathBuf,
    short: bool,
    debug: bool,
}

impl Soak {
    fn cargo(&self) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root).args(["test", "--quiet", "--package", "taskq", "--test", "soak"]);
        command.args((!self.debug).then_some("--release"));
        // Every scenario has a server of its own, which it may stop.
        command.env(PG_VARIABLE, &self.programs).env_remove(TEST_DSN_VARIABLE);
        if self.short {
            command.env("TASKQ_SOAK", "short");
        }
        command
    }

    /// Builds the scenarios and lists their names.
    fn list(&self) -> anyhow::Result<Vec<String>> {
        let mut command = self.cargo();
        command.args(["--", "--list", "--ignored"]).stderr(Stdio::inherit());
        let output = command.output().context("cannot run cargo")?;
        if !output.status.success() {
            bail!("the scenarios do not build");
        }
        Ok(names(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Runs one, showing what it says as it comes.
    fn run(&self, scenario: &str) -> anyhow::Result<Outcome> {
        report(&format!("--- {scenario}"));
        let start = Instant::now();
        let mut command = self.cargo();
        command.args(["--", "--exact", scenario, "--ignored", "--nocapture", "--test-threads=1"]);
        let mut child = command.stdout(Stdio::piped()).spawn().context("cannot run cargo")?;
        let mut facts = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            for line in BufReader::new(stdout).split(b'\n') {
                let line = line.context("cannot read what the scenario says")?;
                if let Some(fact) = fact(&String::from_utf8_lossy(&line)) {
                    report(&format!("{}: {}", fact.0, fact.1));
                    facts.push(fact);
                }
            }
        }
        let passed = child.wait().context("cannot wait for cargo")?.success();
        Ok(Outcome { scenario: scenario.to_owned(), facts, passed, took: start.elapsed() })
    }
}

/// The scenarios among the tests that a test binary lists.
fn names(list: &str) -> Vec<String> {
    let tests = list.lines().filter_map(|line| line.strip_suffix(": test"));
    tests.filter(|test| !test.ends_with(CHILD)).map(ToOwned::to_owned).collect()
}

/// What was measured, by a line of output. The test runner may have written something in front of it.
fn fact(line: &str) -> Option<(String, String)> {
    let (_, fact) = line.split_once(FACT)?;
    let (name, value) = fact.split_once(" = ")?;
    Some((name.to_owned(), value.trim_end().to_owned()))
}

/// One row a scenario, and below it one for each fact.
fn table(outcomes: &[Outcome]) -> String {
    let names = outcomes.iter().flat_map(|outcome| &outcome.facts).map(|(name, _)| name.len());
    let width = names.max().unwrap_or_default();
    let mut lines = Vec::new();
    for Outcome { scenario, facts, passed, took } in outcomes {
        let verdict = if *passed { "passed" } else { "FAILED" };
        lines.push(format!("\n{verdict}  {scenario}  ({} s)", took.as_secs()));
        lines.extend(facts.iter().map(|(name, value)| format!("        {name:width$}  {value}")));
    }
    lines.join("\n")
}

#[expect(clippy::print_stdout, reason = "the table is the result of the command")]
fn print(text: &str) {
    println!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_told_from_their_child_processes() {
        let list = "crew::member: test\nkills::every_2_s: test\n\n2 tests, 0 benchmarks\n";
        assert_eq!(names(list), ["kills::every_2_s"]);
    }

    #[test]
    fn facts_are_found_behind_what_the_test_runner_writes() {
        let fact = |line| fact(line).map(|(name, value)| format!("{name}|{value}"));
        assert_eq!(fact("test x ... fact: kills = 3, of 4 = many\r").unwrap(), "kills|3, of 4 = many");
        assert_eq!(fact("fact: without a value"), None);
        assert_eq!(fact("something else = 1"), None);
    }

    #[test]
    fn the_table_shows_every_verdict_with_its_facts() {
        let outcome = |scenario: &str, passed| Outcome {
            scenario: scenario.to_owned(),
            facts: vec![("kills".to_owned(), "3".to_owned()), ("a long name".to_owned(), "4".to_owned())],
            passed,
            took: Duration::from_millis(2_900),
        };
        let table = table(&[outcome("one", true), outcome("two", false)]);
        assert!(table.contains("\npassed  one  (2 s)\n        kills        3\n"), "{table}");
        assert!(table.contains("\n\nFAILED  two  (2 s)\n"), "{table}");
    }
}
