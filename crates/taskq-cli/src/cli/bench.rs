//! `taskq bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, value_parser};
use taskq::DEFAULT_SLOTS;

use crate::exit::Failure;

/// The most jobs of one run.
const JOBS: std::ops::RangeInclusive<u64> = 1..=100_000_000;

/// The benchmarks.
#[derive(Subcommand, Debug)]
#[command(after_help = "\
Without a DSN a benchmark starts a server of its own, as durable as PostgreSQL is by itself. With one it works in a \
scratch schema there (--schema, by default taskq_bench), which it makes, and drops at the end unless --keep is given; \
a schema that no benchmark made is refused.

Times depend on the machine and on what else it does: compare the ratios, which are of cases that took turns in \
one run. Build with --release.")]
pub(crate) enum BenchCommand {
    /// Drain a queue of jobs that do nothing, beside a loop of plain SQL.
    Drain(DrainArgs),
    /// Time from the call that enqueues a job to the start of its handler.
    Latency(LatencyArgs),
}

impl BenchCommand {
    /// Returns what all benchmarks are told.
    pub(crate) fn shared(&self) -> &BenchArgs {
        match self {
            Self::Drain(args) => &args.shared,
            Self::Latency(args) => &args.shared,
        }
    }

    /// Checks what one option alone cannot tell.
    ///
    /// # Errors
    /// Slots that cannot be shared evenly.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self {
            Self::Drain(DrainArgs { slots, processes, .. }) if slots % processes != 0 => Err(Failure::usage(
                format!("--slots: {slots} slots cannot be shared evenly by {processes} processes"),
            )),
            _ => Ok(()),
        }
    }
}

/// What all benchmarks are told.
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// Write the figures, all of them, to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Leave the schema, or the private server, as it is afterwards.
    #[arg(long)]
    pub(crate) keep: bool,
}

/// How often a case is measured.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct RepeatArgs {
    /// How many rounds are measured, after one of warm-up; the cases take turns in each.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=1_000))]
    pub(crate) repeats: u32,
}

/// What `taskq bench drain` is told.
#[derive(Args, Debug)]
pub(crate) struct DrainArgs {
    /// How many jobs are drained.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = value_parser!(u64).range(JOBS))]
    pub(crate) jobs: u64,
    /// How many jobs run at once, in all processes together.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SLOTS, value_parser = value_parser!(u32).range(1..=10_000))]
    pub(crate) slots: u32,
    /// How many worker processes share the slots.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=64))]
    pub(crate) processes: u32,
    /// How many actors the jobs belong to.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1_000))]
    pub(crate) actors: u32,
    /// Compare the default settings with others.
    #[arg(long)]
    pub(crate) tuned: bool,
    /// Compare with a queue of this many ready jobs.
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(JOBS))]
    pub(crate) ready: Option<u64>,
    #[command(flatten)]
    pub(crate) repeats: RepeatArgs,
    #[command(flatten)]
    pub(crate) shared: BenchArgs,
}

/// What `taskq bench latency` is told.
#[derive(Args, Debug)]
pub(crate) struct LatencyArgs {
    /// How many jobs are enqueued one at a time, each when the worker is idle again.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) jobs: u32,
    /// How many jobs a second arrive at random.
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: u32,
    /// How long they arrive.
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = value_parser!(u32).range(1..=86_400))]
    pub(crate) seconds: u32,
    /// How many jobs run at once.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SLOTS, value_parser = value_parser!(u32).range(1..=10_000))]
    pub(crate) slots: u32,
    #[command(flatten)]
    pub(crate) shared: BenchArgs,
}
