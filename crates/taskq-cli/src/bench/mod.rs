//! Benchmarks: what taskq does with a server, as ratios to what the same server does with plain SQL in the same run.
//!
//! One benchmark a file; what they share: the [`scene`] they run in, the [`probe`] that tells what a stretch of work
//! costs, [`rounds`] that interleave the cases, worker processes ([`crew`] outside, [`child`] inside), and the
//! [`report`]. `docs/design/benchmarks.md` says how each figure is measured.

mod callers;
mod child;
mod churn;
mod clock;
mod copy;
mod crew;
mod depth;
mod drain;
mod enqueue;
mod idle;
mod job;
mod latency;
mod machine;
mod plain;
mod probe;
mod progress;
mod report;
mod rounds;
mod scale;
mod scene;
mod seed;
mod sql_loop;
mod times;
mod transactions;

pub(crate) use child::{is_asked_for, run as run_worker};
pub(crate) use progress::Progress;
pub(crate) use report::{Report, ReportFile};
pub(crate) use scene::{Left, Scene};

use crate::cli::BenchCommand;
use crate::exit::Failure;

/// Runs one benchmark.
pub(crate) async fn run(
    command: &BenchCommand,
    scene: &Scene,
    progress: &Progress,
) -> Result<Report, Failure> {
    match command {
        BenchCommand::Drain(args) => drain::run(args, scene, progress).await,
        BenchCommand::Depth(args) => depth::run(args, scene, progress).await,
        BenchCommand::Latency(args) => latency::run(args, scene, progress).await,
        BenchCommand::Enqueue(args) => enqueue::run(args, scene, progress).await,
        BenchCommand::Churn(args) => churn::run(args, scene, progress).await,
        BenchCommand::Scale(args) => scale::run(args, scene, progress).await,
    }
}
