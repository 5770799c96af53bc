//! `taskq bench scale`: the same slots in more processes, short jobs beside bare tasks, and idle workers.

use super::child::Body;
use super::crew::Crew;
use super::drain::{Drained, by_workers, orders, rates_of};
use super::idle;
use super::machine::Machine;
use super::progress::Progress;
use super::report::{Report, Row};
use super::rounds::{Rates, Rounds, interleave};
use super::scene::Scene;
use crate::cli::ScaleArgs;
use crate::exit::Failure;

/// How many jobs wait at once.
const WAITING: u32 = 4;
/// How long each waits.
const WAIT: Body = Body::Wait { ms: 1 };
/// A round of warm-up needs no more than this.
const WARM_UP_JOBS: u64 = 20_000;

const COLUMNS: [&str; 11] = [
    "part",
    "case",
    "jobs",
    "slots",
    "processes",
    "jobs_per_s",
    "jobs_per_s_median",
    "ratio_to_first",
    "ratio_to_bare_tasks",
    "statements_per_s",
    "connections",
];

/// Runs the benchmark.
pub(super) async fn run(args: &ScaleArgs, scene: &Scene, progress: &Progress) -> Result<Report, Failure> {
    let rounds = Rounds { warm_up: 1, measured: args.repeats.repeats };
    let units =
        |jobs: u64, cases: usize| cases as u64 * (jobs.min(WARM_UP_JOBS) + jobs * u64::from(rounds.measured));
    progress.expect(
        2 * units(args.jobs, args.processes.len())
            + 3 * units(args.waits, 1)
            + 2 * args.idle_slots.len() as u64 * u64::from(args.idle_seconds),
    );
    let mut rows = processes(args, rounds, scene, progress).await?;
    rows.extend(waits(args, rounds, scene, progress).await?);
    rows.extend(idle::rows(scene, &args.idle_slots, args.idle_seconds, progress).await?);
    let no_statements = scene.statements().is_none().then(|| {
        "Statements were not counted: the extension pg_stat_statements is not in this database.".to_owned()
    });
    Ok(Report {
        bench: "scale",
        server: scene.facts().clone(),
        machine: Machine::look(),
        rows,
        columns: &COLUMNS,
        notes: no_statements.into_iter().collect(),
    })
}

/// Drains the same number of jobs with the same slots, shared by more and more processes.
async fn processes(
    args: &ScaleArgs,
    rounds: Rounds,
    scene: &Scene,
    progress: &Progress,
) -> Result<Vec<Row>, Failure> {
    let drained = interleave(rounds, &args.processes, async |processes, warm_up| {
        let jobs = if warm_up { args.jobs.min(WARM_UP_JOBS) } else { args.jobs };
        progress.say(format!("{processes} processes: {jobs} jobs"));
        by_workers(scene, &orders(scene, args.slots, *processes, 1, Body::Nothing), jobs, progress).await
    });
    let rates: Vec<_> = drained.await?.iter().map(|samples| rates_of(samples)).collect();
    let row = |(processes, rate): (&u32, &Rates)| {
        row("processes", "worker", args.jobs, args.slots, rate)
            .with("processes", *processes)
            .with("ratio_to_first", rate.ratio_to(&rates[0]))
            .with("ratio_to_first_median", rate.median_ratio_to(&rates[0]))
    };
    Ok(args.processes.iter().zip(&rates).map(row).collect())
}

/// Runs jobs that wait a moment, in slots of a worker and in tasks that know of no jobs.
async fn waits(
    args: &ScaleArgs,
    rounds: Rounds,
    scene: &Scene,
    progress: &Progress,
) -> Result<Vec<Row>, Failure> {
    let rates = interleave(rounds, &[true, false], async |bare, warm_up| {
        let jobs = if warm_up { args.waits.min(WARM_UP_JOBS) } else { args.waits };
        let mut orders = orders(scene, WAITING, 1, 1, WAIT);
        if !bare {
            progress.say(format!("worker: {jobs} jobs of 1 ms"));
            return by_workers(scene, &orders, jobs, progress).await.map(|drained: Drained| drained.rate());
        }
        progress.say(format!("bare tasks: {jobs} waits of 1 ms"));
        for orders in &mut orders {
            orders.bare = Some(jobs);
        }
        let mut crew = Crew::start(&orders).await?;
        let mut track = crew.go().await?;
        crew.follow(&mut track, jobs, |jobs| progress.advance(jobs)).await?;
        crew.stop().await?;
        Ok(track.rate())
    });
    let rates: Vec<_> = rates.await?.into_iter().map(Rates::of).collect();
    Ok(vec![
        row("waits of 1 ms", "bare tasks", args.waits, WAITING, &rates[0]),
        row("waits of 1 ms", "worker", args.waits, WAITING, &rates[1])
            .with("ratio_to_bare_tasks", rates[1].ratio_to(&rates[0]))
            .with("ratio_to_bare_tasks_median", rates[1].median_ratio_to(&rates[0])),
    ])
}

fn row(part: &str, case: &str, jobs: u64, slots: u32, rates: &Rates) -> Row {
    Row::of(case)
        .with("part", part)
        .with("jobs", jobs)
        .with("slots", slots)
        .with("jobs_per_s", rates.best())
        .with("jobs_per_s_median", rates.median())
}
