//! `taskq bench drain`: how fast a queue of jobs that do nothing is worked off, with history.

mod comparisons;

use taskq::{DEFAULT_SLOTS, SLOTS_LIMIT};

use super::child::{Body, Orders, Way};
use super::clock::seconds;
use super::crew::{Crew, Track};
use super::probe::{Probe, Spent, wal_note};
use super::progress::Progress;
use super::report::{Report, Row};
use super::rounds::{Rates, Rounds, interleave};
use super::scene::{QUEUE, Scene};
use super::sql_loop::{self, Through, Turns};
use super::{machine::Machine, seed};
use crate::cli::DrainArgs;
use crate::exit::Failure;

/// The numbers of slots that `--tuned` compares with the default.
const GRID: [u32; 4] = [64, 128, 256, 1_000];
/// A round of warm-up needs no more than this to fill caches and make plans.
const WARM_UP_JOBS: u64 = 20_000;
/// How many jobs are ready in the shallow queue that `--ready` compares with.
const SHALLOW: u64 = 20_000;

const COLUMNS: [&str; 17] = [
    "case",
    "jobs",
    "slots",
    "processes",
    "jobs_per_s",
    "jobs_per_s_median",
    "ratio_to_sql_loop",
    "ratio_to_shallow",
    "ratio_to_best_tuned",
    "ratio_to_direct",
    "worker_cpu_us_per_job",
    "cpu_us_over_untyped",
    "wal_bytes_per_job",
    "worker_cpu_s",
    "server_cpu_s",
    "cpu_us_per_job",
    "worker_peak_bytes",
];

/// What drains the queue, and how much there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Case {
    by: By,
    jobs: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Loop(Through),
    Workers { slots: u32, processes: u32, kind: Kind },
}

/// In what workers differ from the usual one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// In nothing.
    Usual,
    /// Its connections are used in this mode, without a look at the server.
    Way(Way),
    /// It reaches the server through `pgbouncer`.
    Pooler,
    /// Its handler does this.
    Body(Body),
}

/// One drain.
pub(super) struct Drained {
    pub(super) jobs: u64,
    pub(super) elapsed_s: f64,
    worker_cpu_s: f64,
    spent: Spent,
    /// What the workers told, where it was workers.
    track: Option<Track>,
}

impl Drained {
    #[expect(clippy::cast_precision_loss, reason = "a rate is computed")]
    pub(super) fn rate(&self) -> f64 {
        self.jobs as f64 / self.elapsed_s
    }

    /// The processor time of a job in the worker's processes.
    #[expect(clippy::cast_precision_loss, reason = "a share is computed")]
    fn worker_cpu_us_per_job(&self) -> f64 {
        self.worker_cpu_s * 1e6 / self.jobs as f64
    }

    /// The processor time of a job, of the worker and the server together.
    #[expect(clippy::cast_precision_loss, reason = "a share is computed")]
    fn cpu_us_per_job(&self) -> Option<f64> {
        let cpu_s = self.worker_cpu_s + self.spent.server_cpu_s?;
        Some(cpu_s * 1e6 / self.jobs as f64)
    }
}

/// Runs the benchmark.
pub(super) async fn run(args: &DrainArgs, scene: &Scene, progress: &Progress) -> Result<Report, Failure> {
    let rounds = Rounds { warm_up: 1, measured: args.repeats.repeats };
    let (mut rows, mut notes) = (Vec::new(), Vec::from_iter(wal_note(scene)));
    if let Some(ready) = args.ready {
        rows = compare_depths(args, ready, rounds, scene, progress).await?;
    }
    if args.modes {
        let (of_modes, note) = comparisons::modes(args, rounds, scene, progress).await?;
        rows.extend(of_modes);
        notes.extend(note);
    }
    if args.handlers {
        rows.extend(comparisons::handlers(args, rounds, scene, progress).await?);
    }
    rows.extend(compare_with_loops(args, rounds, scene, progress).await?);
    Ok(Report {
        bench: "drain",
        server: scene.facts().clone(),
        machine: Machine::look(),
        rows,
        columns: &COLUMNS,
        notes,
    })
}

/// The worker beside the loops; with `--tuned`, beside workers with other settings too. The worker's row is the last.
async fn compare_with_loops(
    args: &DrainArgs,
    rounds: Rounds,
    scene: &Scene,
    progress: &Progress,
) -> Result<Vec<Row>, Failure> {
    let workers = |slots| By::Workers { slots, processes: args.processes, kind: Kind::Usual };
    let mut by = vec![
        By::Loop(Through::Procedure),
        By::Loop(Through::Turns(Turns::Statements)),
        By::Loop(Through::Turns(Turns::Functions)),
        workers(args.slots),
    ];
    // The worker's row is the last.
    let worker = by.len() - 1;
    if args.tuned {
        by.extend(GRID.iter().filter(|slots| **slots != args.slots).map(|slots| workers(*slots)));
        if args.slots != DEFAULT_SLOTS {
            by.push(workers(DEFAULT_SLOTS));
        }
    }
    let cases: Vec<_> = by.into_iter().map(|by| Case { by, jobs: args.jobs }).collect();
    let drained = measure(args, rounds, &cases, (scene, None), progress).await?;

    let rates: Vec<Rates> = drained.iter().map(|samples| rates_of(samples)).collect();
    let best_tuned = rates[worker..].iter().map(Rates::best).fold(0.0, f64::max);
    let row = |at: usize| {
        let row = row_of(&cases[at], &drained[at])
            .with("ratio_to_sql_loop", rates[at].ratio_to(&rates[0]))
            .with("ratio_to_sql_loop_median", rates[at].median_ratio_to(&rates[0]));
        if args.tuned && matches!(cases[at].by, By::Workers { .. }) {
            return row.with("ratio_to_best_tuned", rates[at].best() / best_tuned);
        }
        row
    };
    Ok((0..worker).chain(worker + 1..cases.len()).chain([worker]).map(row).collect())
}

/// The rate at which a deep queue is worked off beside that of a shallow one.
async fn compare_depths(
    args: &DrainArgs,
    ready: u64,
    rounds: Rounds,
    scene: &Scene,
    progress: &Progress,
) -> Result<Vec<Row>, Failure> {
    let by = By::Workers { slots: args.slots, processes: args.processes, kind: Kind::Usual };
    let shallow = SHALLOW.min(ready);
    let cases = [Case { by, jobs: shallow }, Case { by, jobs: ready }];
    let drained = measure(args, rounds, &cases, (scene, None), progress).await?;
    let first = |drained: &Drained| {
        #[expect(clippy::cast_precision_loss, reason = "a rate is computed")]
        drained.track.as_ref().map_or(0.0, |track| shallow as f64 / seconds(track.ns_at(shallow)))
    };
    let (of_shallow, of_deep) = (rates_of(&drained[0]), rates_of(&drained[1]));
    let of_first = Rates::of(drained[1].iter().map(first));
    Ok(vec![
        row_of(&cases[0], &drained[0]),
        row_of(&cases[1], &drained[1])
            .with("ratio_to_shallow", of_deep.ratio_to(&of_shallow))
            // The same number of jobs in both.
            .with("jobs_per_s_of_first", of_first.best())
            .with("ratio_to_shallow_of_first", of_first.ratio_to(&of_shallow)),
    ])
}

pub(super) fn rates_of(samples: &[Drained]) -> Rates {
    Rates::of(samples.iter().map(Drained::rate))
}

async fn measure(
    args: &DrainArgs,
    rounds: Rounds,
    cases: &[Case],
    (scene, through): (&Scene, Option<&str>),
    progress: &Progress,
) -> Result<Vec<Vec<Drained>>, Failure> {
    let of_round = |warm_up: bool| {
        cases
            .iter()
            .map(move |case| 2 * if warm_up { case.jobs.min(WARM_UP_JOBS) } else { case.jobs })
            .sum::<u64>()
    };
    progress
        .expect(of_round(true) * u64::from(rounds.warm_up) + of_round(false) * u64::from(rounds.measured));
    interleave(rounds, cases, async |case, warm_up| {
        let jobs = if warm_up { case.jobs.min(WARM_UP_JOBS) } else { case.jobs };
        let by = case.by;
        progress.say(format!("{}: {jobs} jobs", name(by)));
        match by {
            By::Loop(through) => by_loop(scene, through, args.actors, jobs, progress).await,
            By::Workers { slots, processes, kind } => {
                let (body, actors) = match kind {
                    // A job type has one actor.
                    Kind::Body(body) => (body, 1),
                    _ => (Body::Nothing, args.actors),
                };
                let mut orders = orders(scene, slots, processes, actors, body);
                for orders in &mut orders {
                    match (kind, through) {
                        (Kind::Way(way), _) => orders.way = way,
                        (Kind::Pooler, Some(dsn)) => dsn.clone_into(&mut orders.dsn),
                        _ => {}
                    }
                }
                by_workers(scene, &orders, jobs, progress).await
            }
        }
    })
    .await
}

async fn by_loop(
    scene: &Scene,
    through: Through,
    actors: u32,
    jobs: u64,
    progress: &Progress,
) -> Result<Drained, Failure> {
    let actors = actor_names(actors);
    seed::ready(scene, &actors, jobs, progress).await?;
    let looped = sql_loop::drain(scene, through, QUEUE, &actors, |jobs| progress.advance(jobs)).await?;
    if looped.jobs != jobs {
        return Err(Failure::failed(format!("the loop ended {} of {jobs} jobs", looped.jobs)));
    }
    let (elapsed_s, worker_cpu_s) = (seconds(looped.elapsed_ns), seconds(looped.cpu_ns));
    Ok(Drained { jobs, elapsed_s, worker_cpu_s, spent: looped.spent, track: None })
}

/// Writes jobs and lets worker processes drain them.
pub(super) async fn by_workers(
    scene: &Scene,
    orders: &[Orders],
    jobs: u64,
    progress: &Progress,
) -> Result<Drained, Failure> {
    let actors = orders.first().map_or(&[][..], |orders| &orders.actors);
    seed::ready(scene, actors, jobs, progress).await?;
    let mut crew = Crew::start(orders).await?;
    let probe = Probe::start(scene).await?;
    let mut track = crew.go().await?;
    crew.follow(&mut track, jobs, |jobs| progress.advance(jobs)).await?;
    let spent = probe.stop(scene).await?;
    crew.stop().await?;
    let count = r#"SELECT count(*) FROM "{schema}".jobs WHERE status = 'succeeded' AND attempt = 1"#;
    let ended: i64 = scene.control().one(count, &[]).await?.get(0);
    if u64::try_from(ended).ok() != Some(jobs) {
        return Err(Failure::failed(format!(
            "the workers ended {ended} of {jobs} jobs with one attempt each"
        )));
    }
    let (elapsed_s, worker_cpu_s) = (seconds(track.elapsed_ns()), seconds(track.cpu_ns()));
    Ok(Drained { jobs, elapsed_s, worker_cpu_s, spent, track: Some(track) })
}

/// The orders of workers that share their slots.
pub(super) fn orders(scene: &Scene, slots: u32, processes: u32, actors: u32, body: Body) -> Vec<Orders> {
    let database = scene.database();
    let of_one = Orders {
        dsn: database.dsn.clone(),
        schema: database.schema.to_string(),
        way: database.mode.into(),
        queue: QUEUE.to_owned(),
        actors: actor_names(actors),
        slots: (slots / processes).clamp(1, SLOTS_LIMIT),
        body,
        bare: None,
    };
    vec![of_one; processes as usize]
}

fn actor_names(actors: u32) -> Vec<String> {
    (0..actors).map(|nth| format!("bench.noop.{nth}")).collect()
}

fn name(by: By) -> &'static str {
    match by {
        By::Loop(Through::Procedure) => "sql loop",
        By::Loop(Through::Turns(Turns::Statements)) => "client loop",
        By::Loop(Through::Turns(Turns::Functions)) => "function loop",
        By::Workers { kind, .. } => match kind {
            Kind::Way(Way::Pooled) => "worker, pooled mode",
            Kind::Way(_) => "worker, direct mode",
            Kind::Pooler => "worker, through pgbouncer",
            Kind::Body(Body::Typed) => "worker, typed handler",
            Kind::Body(_) => "worker, untyped handler",
            Kind::Usual => "worker",
        },
    }
}

/// The figures of the fastest round, and the median of all rates.
fn row_of(case: &Case, samples: &[Drained]) -> Row {
    let row = Row::of(name(case.by)).with("jobs", case.jobs).with("rounds", samples.len() as u64);
    let row = match case.by {
        By::Workers { slots, processes, .. } => row.with("slots", slots).with("processes", processes),
        By::Loop(_) => row.with("batch", u64::from(sql_loop::BATCH.unsigned_abs())),
    };
    let Some(fastest) = samples.iter().max_by(|a, b| a.rate().total_cmp(&b.rate())) else { return row };
    let mut row = row
        .with("elapsed_s", fastest.elapsed_s)
        .with("jobs_per_s", fastest.rate())
        .with("jobs_per_s_median", rates_of(samples).median())
        .with("wal_bytes_per_job", fastest.spent.wal_bytes_per(fastest.jobs))
        .with("wal_bytes", fastest.spent.wal_bytes)
        .with("wal_full_page_bytes", fastest.spent.full_page_bytes)
        .with("worker_cpu_s", fastest.worker_cpu_s)
        .with("server_cpu_s", fastest.spent.server_cpu_s)
        .with("cpu_us_per_job", fastest.cpu_us_per_job());
    if let Some(track) = &fastest.track {
        row = row
            .with("worker_peak_at_10_percent_bytes", track.peak_bytes_at(case.jobs / 10))
            .with("worker_peak_at_50_percent_bytes", track.peak_bytes_at(case.jobs / 2))
            .with("worker_peak_bytes", track.peak_bytes_at(case.jobs));
    }
    row
}
