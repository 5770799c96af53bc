//! `taskq bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, value_parser};
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
    /// Claim 50 jobs from queues of different depths, whatever else the table holds and the planner believes.
    Depth(DepthArgs),
    /// Time from the call that enqueues a job to the start of its handler.
    Latency(LatencyArgs),
    /// Enqueue one at a time, from many callers, many in one call, and in transactions, beside bare inserts and COPY.
    Enqueue(EnqueueBenchArgs),
    /// Let jobs come and go for long in tables with different storage settings, side by side.
    Churn(ChurnArgs),
    /// Share the slots among processes, compare short waits with bare tasks, and count what an idle worker costs.
    Scale(ScaleArgs),
}

impl BenchCommand {
    /// Returns what all benchmarks are told.
    pub(crate) fn shared(&self) -> &BenchArgs {
        match self {
            Self::Drain(args) => &args.shared,
            Self::Depth(args) => &args.shared,
            Self::Latency(args) => &args.shared,
            Self::Enqueue(args) => &args.shared,
            Self::Churn(args) => &args.shared,
            Self::Scale(args) => &args.shared,
        }
    }

    /// Checks what one option alone cannot tell.
    ///
    /// # Errors
    /// Slots that cannot be shared evenly.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let (slots, processes) = match self {
            Self::Drain(args) => (args.slots, std::slice::from_ref(&args.processes)),
            Self::Scale(args) => (args.slots, args.processes.as_slice()),
            Self::Depth(args) => return args.check(),
            Self::Latency(_) | Self::Enqueue(_) | Self::Churn(_) => return Ok(()),
        };
        match processes.iter().find(|processes| !slots.is_multiple_of(**processes)) {
            Some(processes) => Err(Failure::usage(format!(
                "--slots: {slots} slots cannot be shared evenly by {processes} processes"
            ))),
            None => Ok(()),
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
    /// Compare the pooled mode with the direct one, and a worker behind pgbouncer where that is installed.
    #[arg(long)]
    pub(crate) modes: bool,
    /// Compare a handler of a job type with one that takes any payload.
    #[arg(long)]
    pub(crate) handlers: bool,
    #[command(flatten)]
    pub(crate) repeats: RepeatArgs,
    #[command(flatten)]
    pub(crate) shared: BenchArgs,
}

/// What `taskq bench depth` is told.
#[derive(Args, Debug)]
pub(crate) struct DepthArgs {
    /// How many jobs are ready; every depth is compared with the smallest.
    #[arg(long, value_name = "N", num_args = 1.., default_values_t = [1_000, 10_000, 50_000, 200_000, 1_000_000], value_parser = value_parser!(u64).range(100..=100_000_000))]
    pub(crate) depths: Vec<u64>,
    /// The mode of the queue.
    #[arg(long, default_value = "both")]
    pub(crate) mode: ModesArg,
    /// In which states of table and planner; `all` stands for each of them.
    #[arg(long, value_name = "STATE", num_args = 1.., default_value = "all")]
    pub(crate) states: Vec<StateArg>,
    /// Compare with the statements of an older system, which claimed with one large statement.
    #[arg(long)]
    pub(crate) experiments: bool,
    /// How many claims are measured of each depth in each state; each is rolled back.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: u32,
    #[command(flatten)]
    pub(crate) shared: BenchArgs,
}

/// The mode of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ModesArg {
    /// One order for all jobs.
    StrictFifo,
    /// Lanes take turns.
    RoundRobin,
    /// One after the other.
    Both,
}

/// A state of the table and the planner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum StateArg {
    /// All of them.
    All,
    /// Never analyzed.
    NeverAnalyzed,
    /// Never analyzed, and with plans that were made when the table held a handful of rows.
    PlannedEmpty,
    /// Analyzed when it was empty.
    AnalyzedEmpty,
    /// Analyzed as it is.
    Analyzed,
    /// With plans that do not know their parameters.
    GenericPlans,
    /// With the server's compiler of expressions on, whatever its default.
    JitOn,
    /// With that compiler off.
    JitOff,
    /// Beside as many jobs that are scheduled for later.
    Scheduled,
    /// Beside as many that are finished.
    Finished,
    /// Beside as many that run.
    Running,
    /// Beside as many ready ones of actors that are not served.
    OtherActors,
    /// Beside as many ready ones that have been tried before.
    Retried,
    /// Of 48 actors, beside 8.
    Actors,
    /// Of 10,000 cohorts, beside 10; in round robin only.
    Cohorts,
}

impl DepthArgs {
    fn check(&self) -> Result<(), Failure> {
        if self.mode == ModesArg::StrictFifo && self.states.contains(&StateArg::Cohorts) {
            return Err(Failure::usage("--states cohorts: a queue in strict_fifo mode has no cohorts"));
        }
        Ok(())
    }
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

/// What `taskq bench enqueue` is told.
#[derive(Args, Debug)]
pub(crate) struct EnqueueBenchArgs {
    /// How many jobs are enqueued one at a time, and then by the callers together, in each round.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub(crate) calls: u64,
    /// How many callers enqueue at once.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(1..=1_000))]
    pub(crate) callers: u32,
    /// How many jobs are enqueued in one call.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub(crate) batch: u64,
    /// How many transactions the callers commit together, each on a session of its own, in each round.
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub(crate) transactions: u64,
    #[command(flatten)]
    pub(crate) repeats: RepeatArgs,
    #[command(flatten)]
    pub(crate) shared: BenchArgs,
}

/// What `taskq bench churn` is told.
#[derive(Args, Debug)]
pub(crate) struct ChurnArgs {
    /// How many jobs a second come and go in each of the tables.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u32).range(10..=10_000))]
    pub(crate) rate: u32,
    /// How long they do.
    #[arg(long, value_name = "S", default_value_t = 300, value_parser = value_parser!(u32).range(4..=86_400))]
    pub(crate) seconds: u32,
    /// How many jobs are ready all the time.
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) ready: u32,
    /// How long finished jobs stay in the table.
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = value_parser!(u32).range(1..=3_600))]
    pub(crate) hot_seconds: u32,
    #[command(flatten)]
    pub(crate) shared: BenchArgs,
}

/// What `taskq bench scale` is told.
#[derive(Args, Debug)]
pub(crate) struct ScaleArgs {
    /// How many jobs are drained in each round.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = value_parser!(u64).range(JOBS))]
    pub(crate) jobs: u64,
    /// How many jobs run at once, in all processes together.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(1..=10_000))]
    pub(crate) slots: u32,
    /// The numbers of processes that share the slots; the others are compared with the first.
    #[arg(long, value_name = "N", num_args = 1.., default_values_t = [1, 2, 4, 8], value_parser = value_parser!(u32).range(1..=64))]
    pub(crate) processes: Vec<u32>,
    /// How many jobs that wait 1 ms are run in 4 slots, and in 4 bare tasks.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u64).range(1..=10_000_000))]
    pub(crate) waits: u64,
    /// The numbers of slots of idle workers; they must not make a difference.
    #[arg(long, value_name = "N", num_args = 1.., default_values_t = [1, 1_000], value_parser = value_parser!(u32).range(1..=10_000))]
    pub(crate) idle_slots: Vec<u32>,
    /// How long idle workers are watched, for each number of slots, once alone and once two together.
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = value_parser!(u32).range(1..=3_600))]
    pub(crate) idle_seconds: u32,
    #[command(flatten)]
    pub(crate) repeats: RepeatArgs,
    #[command(flatten)]
    pub(crate) shared: BenchArgs,
}
