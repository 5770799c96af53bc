//! Breaking the code on purpose, to see that a test notices.

mod checkout;
mod patch;

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use taskq_testkit::{ChildProcess, PG_VARIABLE, TEST_DSN_VARIABLE};

use crate::pg::Choice;
use crate::report;
use checkout::Checkout;
use patch::Mutation;

/// How long a build may take.
const BUILD: Duration = Duration::from_mins(30);

/// How long a test may take before it counts as failed: a break may well make it wait for ever.
const TEST: Duration = Duration::from_mins(3);

/// How many lines of its output a command shows that does not do what it should.
const LAST_LINES: usize = 30;

/// Which mutations, and what to do with them.
#[derive(Args)]
pub(crate) struct Selection {
    /// Only those whose name contains this.
    #[arg(default_value = "")]
    name: String,
    /// Say what there is, and run nothing.
    #[arg(long)]
    list: bool,
}

/// What became of a mutation.
enum Verdict {
    /// How: the tests that failed.
    Caught(String),
    Survived,
    /// The patch does not apply, the result does not build, or the test fails without it.
    Unusable(&'static str),
}

/// How a command ended.
struct Run {
    /// None if it had to be ended.
    passed: Option<bool>,
    output: Vec<String>,
}

/// Where and with what the commands run.
struct Bench {
    checkout: Checkout,
    target: PathBuf,
    programs: PathBuf,
    runtime: tokio::runtime::Runtime,
}

/// Applies each mutation to a copy of the checkout and runs its test there; fails unless each is caught.
pub(crate) fn run(root: &Path, selection: &Selection) -> anyhow::Result<ExitCode> {
    let mutations = patch::read(&root.join("mutations"), &selection.name)?;
    if mutations.is_empty() {
        anyhow::bail!("no mutation has a name with {:?}", selection.name);
    }
    let width = mutations.iter().map(|mutation| mutation.name.len()).max().unwrap_or_default();
    if selection.list {
        for mutation in &mutations {
            report(&format!(
                "{:width$}  {}\n{:width$}  {}",
                mutation.name,
                mutation.what,
                "",
                mutation.command()
            ));
        }
        return Ok(ExitCode::SUCCESS);
    }

    let bench = Bench::set_up(root)?;
    let passing = bench.try_unbroken(&mutations)?;
    let mut all_caught = true;
    for mutation in &mutations {
        let start = Instant::now();
        let verdict = if passing[&mutation.test] {
            bench.try_broken(mutation)?
        } else {
            Verdict::Unusable("its test fails without it")
        };
        let text = match &verdict {
            Verdict::Caught(how) => format!("caught{how}"),
            Verdict::Survived => format!("SURVIVED {}", mutation.command()),
            Verdict::Unusable(reason) => format!("UNUSABLE: {reason}"),
        };
        report(&format!("{:width$}  {:4} s  {text}", mutation.name, start.elapsed().as_secs()));
        all_caught &= matches!(verdict, Verdict::Caught(_));
    }
    Ok(if all_caught { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Bench {
    fn set_up(root: &Path) -> anyhow::Result<Self> {
        let place = root.join("target/mutate");
        Ok(Self {
            programs: Choice::from_env()?.resolve()?.bin_dir().to_owned(),
            checkout: Checkout::create(root, &place)?,
            // Apart from the checkout's own, where a broken binary must never be found.
            target: place.join("target"),
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        })
    }

    /// Runs every command once on the code as it is.
    fn try_unbroken(&self, mutations: &[Mutation]) -> anyhow::Result<BTreeMap<Vec<String>, bool>> {
        let mut passing = BTreeMap::new();
        for mutation in mutations {
            if passing.contains_key(&mutation.test) {
                continue;
            }
            let mut run = self.build(mutation)?;
            if run.passed == Some(true) {
                run = self.test(mutation)?;
            }
            let passed = run.passed == Some(true);
            if !passed {
                report(&format!("fails on the code as it is: {}\n{}", mutation.command(), run.last_lines()));
            }
            passing.insert(mutation.test.clone(), passed);
        }
        Ok(passing)
    }

    fn try_broken(&self, mutation: &Mutation) -> anyhow::Result<Verdict> {
        if let Err(error) = self.checkout.apply(mutation) {
            report(&format!("{error:#}"));
            return Ok(Verdict::Unusable("it does not apply"));
        }
        let verdict = self.judge(mutation);
        self.checkout.revert(mutation)?;
        verdict
    }

    fn judge(&self, mutation: &Mutation) -> anyhow::Result<Verdict> {
        // What does not compile makes every test fail and proves nothing.
        let build = self.build(mutation)?;
        if build.passed != Some(true) {
            report(&build.last_lines());
            return Ok(Verdict::Unusable("it does not build"));
        }
        let run = self.test(mutation)?;
        Ok(match run.passed {
            Some(true) => Verdict::Survived,
            Some(false) => Verdict::Caught(format!(" by {}", run.failed_tests().join(", "))),
            None => Verdict::Caught(format!(", not ended within {TEST:?}")),
        })
    }

    fn build(&self, mutation: &Mutation) -> anyhow::Result<Run> {
        self.cargo_test(&mutation.test, &["--no-run"], BUILD)
    }

    fn test(&self, mutation: &Mutation) -> anyhow::Result<Run> {
        self.cargo_test(&mutation.test, &[], TEST)
    }

    /// Runs `cargo test` in the checkout. Its tests start servers of their own, since what they migrate is broken.
    fn cargo_test(&self, arguments: &[String], more: &[&str], within: Duration) -> anyhow::Result<Run> {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(self.checkout.path()).arg("test").args(more).args(arguments);
        command.env("CARGO_TARGET_DIR", &self.target).env(PG_VARIABLE, &self.programs);
        command.env_remove(TEST_DSN_VARIABLE).env("RUST_BACKTRACE", "0");
        self.runtime.block_on(async {
            let mut child = ChildProcess::spawn(&mut command).context("cannot run cargo")?;
            // Longer than it is waited for here, where the end of the time is no panic.
            let ended = tokio::time::timeout(within, child.wait(within * 2)).await;
            let mut output = child.stdout();
            output.extend(child.stderr());
            Ok(Run { passed: ended.ok().map(|status| status.success()), output })
        })
    }
}

impl Run {
    /// The tests that failed, as the test runner names them.
    fn failed_tests(&self) -> Vec<String> {
        let failed = self.output.iter().filter_map(|line| {
            line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(ToOwned::to_owned)
        });
        failed.collect()
    }

    fn last_lines(&self) -> String {
        self.output[self.output.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}
