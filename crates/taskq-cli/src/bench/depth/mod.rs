//! `taskq bench depth`: what a claim of 50 costs, whatever the depth of the queue, the rest of the table, and what the
//! planner believes. Claims are rolled back, so that each meets the same table.

mod dispatcher;
mod experiments;
mod fill;
mod states;

use uuid::Uuid;

use super::machine::Machine;
use super::progress::Progress;
use super::report::{Report, Row};
use super::rounds::{Rounds, interleave, median};
use super::scene::{Annex, Scene};
use super::times::Times;
use crate::cli::{DepthArgs, ModesArg};
use crate::exit::Failure;

use dispatcher::{Claim, Dispatcher, Taken};
use fill::Mode;
use states::{Plans, State, Statistics};

/// How many jobs a claim takes.
const WANT: u32 = 50;
/// Claims before those that count: a plan that does not know its parameters is considered after five.
const WARM_UP: u32 = 8;
/// How often buffers are counted. They hardly differ.
const COUNTS: u32 = 5;

const COLUMNS: [&str; 17] = [
    "part",
    "case",
    "ready",
    "claimed",
    "p50_ms",
    "p95_ms",
    "server_cpu_p50_ms",
    "buffers",
    "ratio_p50_to_shallowest",
    "ratio_cpu_to_shallowest",
    "ratio_buffers_to_shallowest",
    "ratio_p50_to_8_actors",
    "ratio_p50_to_10_cohorts",
    "ratio_p50_to_v1b",
    "ratio_cpu_to_v1b",
    "ratio_buffers_to_v1b",
    "same_jobs",
];

/// The figures of which the worst are shown.
const WORST: [&str; 7] = [
    "p50_ms",
    "p95_ms",
    "server_cpu_p50_ms",
    "buffers",
    "ratio_p50_to_shallowest",
    "ratio_cpu_to_shallowest",
    "ratio_buffers_to_shallowest",
];

/// Runs the benchmark.
pub(super) async fn run(args: &DepthArgs, scene: &Scene, progress: &Progress) -> Result<Report, Failure> {
    let mut depths = args.depths.clone();
    depths.sort_unstable();
    depths.dedup();
    let plan = Plan { depths, rounds: args.rounds, scene, progress };
    let modes: &[Mode] = match args.mode {
        ModesArg::StrictFifo => &[Mode::StrictFifo],
        ModesArg::RoundRobin => &[Mode::RoundRobin],
        ModesArg::Both => &[Mode::StrictFifo, Mode::RoundRobin],
    };
    let (mut rows, mut places) = (Vec::new(), Places::default());
    for mode in modes {
        let mut of_mode = Vec::new();
        for group in states::groups(*mode, &args.states) {
            of_mode.extend(measure(*mode, &group, &plan, &mut places).await?);
        }
        if !of_mode.is_empty() {
            of_mode.push(worst(*mode, &of_mode));
        }
        rows.extend(of_mode);
    }
    if args.experiments {
        rows.extend(experiments::rows(&plan, &mut places).await?);
    }
    let (server, machine) = (scene.facts().clone(), Machine::look());
    Ok(Report { bench: "depth", server, machine, rows, columns: &COLUMNS, notes: Vec::new() })
}

/// What is the same for all that is measured.
struct Plan<'a> {
    /// From the smallest to the largest, each once.
    depths: Vec<u64>,
    rounds: u32,
    scene: &'a Scene,
    progress: &'a Progress,
}

impl Plan<'_> {
    /// Notes that tables are to be filled and claims to be made at each depth.
    fn expect(&self, tables: usize, dispatchers: usize) {
        let rows: u64 = self.depths.iter().sum();
        let claims = self.depths.len() as u64 * u64::from(self.rounds) * fill::ROWS_A_CLAIM;
        self.progress.expect(rows * tables as u64 + claims * dispatchers as u64);
    }
}

/// Measures states that can share what they find in the table.
async fn measure(
    mode: Mode,
    group: &[State],
    plan: &Plan<'_>,
    places: &mut Places,
) -> Result<Vec<Row>, Failure> {
    let contents = states::contents(group);
    plan.expect(contents.len(), group.len());
    let mut subjects = Vec::new();
    for (at, content) in contents.iter().enumerate() {
        for depth in plan.depths.iter().copied() {
            plan.progress.say(format!("{depth} ready, {}", group[0].name));
            let place = places.get(plan.scene, depth, at).await?;
            place.renew().await?;
            let worker = fill::begin(place, mode, &content.served()).await?;
            let states: Vec<_> = group.iter().filter(|state| state.content == *content).collect();
            let claim = |state: &State| Subject::open(*state, depth, plan.scene, place, worker);
            if states.iter().any(|state| state.plans == Plans::WhenSmall) {
                fill::handful(place, mode, *content).await?;
                for state in states.iter().filter(|state| state.plans == Plans::WhenSmall) {
                    let subject = claim(state).await?;
                    subject.dispatcher.repeat(WARM_UP).await?;
                    subjects.push(subject);
                }
                fill::clear(place).await?;
            }
            if states.iter().any(|state| state.statistics == Statistics::OfEmpty) {
                fill::analyze(place).await?;
            }
            fill::fill(place, mode, *content, depth, plan.progress).await?;
            for state in states.iter().filter(|state| state.plans == Plans::AsItIs) {
                subjects.push(claim(state).await?);
            }
        }
    }
    // First those that are to know nothing of what is there.
    let (fresh, others): (Vec<_>, Vec<_>) =
        subjects.into_iter().partition(|subject| subject.state.statistics == Statistics::Fresh);
    let mut taken = take(others, plan).await?;
    if !fresh.is_empty() {
        for place in places.of(&plan.depths, contents.len()) {
            fill::analyze(place).await?;
        }
        taken.extend(take(fresh, plan).await?);
    }
    Ok(rows_of(mode, group, &plan.depths, &taken))
}

/// A state at one depth.
struct Subject {
    state: State,
    depth: u64,
    dispatcher: Dispatcher,
}

impl Subject {
    async fn open(
        state: State,
        depth: u64,
        scene: &Scene,
        place: &Annex,
        worker: Uuid,
    ) -> Result<Self, Failure> {
        let dispatcher = Dispatcher::open(scene, place, state.settings, &Claim::function(worker)).await?;
        Ok(Self { state, depth, dispatcher })
    }
}

/// What was measured of a state at one depth.
struct Measured {
    state: &'static str,
    depth: u64,
    counted: Counted,
}

/// What some claims of one dispatcher gave.
struct Counted {
    times: Times,
    /// The processor time of the server's process.
    cpu: Times,
    buffers: f64,
    taken: Vec<Taken>,
}

impl Counted {
    fn of(taken: Vec<Taken>, buffers: Vec<f64>) -> Self {
        let (mut times, mut cpu) = (Times::new(), Times::new());
        for Taken { ns, cpu_ns, .. } in &taken {
            times.note(*ns);
            if let Some(cpu_ns) = cpu_ns {
                cpu.note(*cpu_ns);
            }
        }
        Self { times, cpu, buffers: median(buffers), taken }
    }

    fn cpu_p50_ms(&self) -> Option<f64> {
        (self.cpu.len() > 0).then(|| self.cpu.at_ms(0.5))
    }

    fn figures(&self, row: Row) -> Row {
        row.with("p50_ms", self.times.at_ms(0.5))
            .with("p95_ms", self.times.at_ms(0.95))
            .with("server_cpu_p50_ms", self.cpu_p50_ms())
            .with("buffers", self.buffers)
    }

    /// Adds the ratios to another to a row.
    fn compared(&self, row: Row, base: &Self, what: &str) -> Row {
        let cpu = self.cpu_p50_ms().zip(base.cpu_p50_ms()).map(|(of, to)| of / to);
        row.with(format!("ratio_p50_to_{what}"), self.times.at_ms(0.5) / base.times.at_ms(0.5))
            .with(format!("ratio_cpu_to_{what}"), cpu)
            .with(format!("ratio_buffers_to_{what}"), self.buffers / base.buffers)
    }
}

async fn take(subjects: Vec<Subject>, plan: &Plan<'_>) -> Result<Vec<Measured>, Failure> {
    let Some(Subject { state, .. }) = subjects.first() else { return Ok(Vec::new()) };
    plan.progress.say(format!("{}: {} claims of each depth", state.name, plan.rounds));
    let dispatchers: Vec<_> = subjects.iter().map(|subject| &subject.dispatcher).collect();
    let counted = claims(&dispatchers, plan).await?;
    let measured = |(subject, counted): (&Subject, Counted)| {
        let (state, depth) = (subject.state.name, subject.depth);
        match counted.taken.iter().find(|taken| taken.ids.len() != WANT as usize) {
            Some(Taken { ids, .. }) => {
                let claimed = ids.len();
                Err(Failure::failed(format!("{state}: a claim took {claimed} of {WANT}, with {depth} ready")))
            }
            None => Ok(Measured { state, depth, counted }),
        }
    };
    subjects.iter().zip(counted).map(measured).collect()
}

/// Lets dispatchers claim in turn, and counts their buffers.
async fn claims(dispatchers: &[&Dispatcher], plan: &Plan<'_>) -> Result<Vec<Counted>, Failure> {
    // Who measures a few only looks whether it works.
    let warm_up = Rounds { warm_up: 0, measured: WARM_UP.min(4 * plan.rounds) };
    interleave(warm_up, dispatchers, async |dispatcher, _| dispatcher.claim().await).await?;
    // Before many claims: each leaves dead versions of its rows behind when it is taken back, and they add up.
    let counts = Rounds { warm_up: 0, measured: COUNTS.min(plan.rounds) };
    let buffers = interleave(counts, dispatchers, async |dispatcher, _| dispatcher.buffers().await).await?;
    let rounds = Rounds { warm_up: 0, measured: plan.rounds };
    let taken = interleave(rounds, dispatchers, async |dispatcher, _| {
        plan.progress.advance(fill::ROWS_A_CLAIM);
        dispatcher.claim().await
    });
    let taken = taken.await?;
    Ok(taken.into_iter().zip(buffers).map(|(taken, buffers)| Counted::of(taken, buffers)).collect())
}

fn rows_of(mode: Mode, group: &[State], depths: &[u64], measured: &[Measured]) -> Vec<Row> {
    let find = |state: &str, depth: u64| {
        let found = measured.iter().find(|measured| measured.state == state && measured.depth == depth);
        found.map(|measured| &measured.counted)
    };
    let row = |state: &State, depth: u64| {
        let (counted, shallowest) = find(state.name, depth).zip(find(state.name, depths[0]))?;
        let row = Row::of(state.name).with("part", mode.name()).with("ready", depth).with("claimed", WANT);
        let row = counted.compared(counted.figures(row), shallowest, "shallowest");
        Some(match state.against.and_then(|(what, base)| Some((what, find(base, depth)?))) {
            Some((what, base)) => counted.compared(row, base, what),
            None => row,
        })
    };
    group.iter().flat_map(|state| depths.iter().filter_map(|depth| row(state, *depth))).collect()
}

/// The worst that a mode has to show in any state.
fn worst(mode: Mode, rows: &[Row]) -> Row {
    let of_mode = |field: &str| rows.iter().filter_map(|row| row.number(field)).fold(0.0, f64::max);
    WORST
        .into_iter()
        .fold(Row::of("worst of all").with("part", mode.name()), |row, field| row.with(field, of_mode(field)))
}

/// The schemas, each with a table of its own, so that all depths can be measured in turn.
#[derive(Default)]
struct Places(Vec<Place>);

struct Place {
    depth: u64,
    /// Which of the tables of this depth that are measured together.
    nth: usize,
    annex: Annex,
}

impl Places {
    async fn get(&mut self, scene: &Scene, depth: u64, nth: usize) -> Result<&Annex, Failure> {
        let known = self.0.iter().position(|place| (place.depth, place.nth) == (depth, nth));
        let at = if let Some(at) = known {
            at
        } else {
            let annex = scene.annex(&format!("{depth}_{nth}")).await?;
            self.0.push(Place { depth, nth, annex });
            self.0.len() - 1
        };
        Ok(&self.0[at].annex)
    }

    /// Lists the first few of each depth, in the order of the depths.
    fn of<'a>(&'a self, depths: &'a [u64], number: usize) -> impl Iterator<Item = &'a Annex> {
        let of_depth =
            move |depth| self.0.iter().filter(move |place| place.depth == depth && place.nth < number);
        depths.iter().copied().flat_map(of_depth).map(|place| &place.annex)
    }
}
