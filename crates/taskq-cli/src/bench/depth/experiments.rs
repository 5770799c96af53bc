//! The shapes that an older system tried for its claim, one large statement each, beside the claim of this version: our
//! own writing, for our table and the indexes that they assume.

use uuid::Uuid;

use super::super::report::Row;
use super::super::scene::{Annex, QUEUE};
use super::dispatcher::{Claim, Dispatcher};
use super::fill::{self, Content, Mode};
use super::{Counted, Places, Plan, WANT, claims};
use crate::exit::Failure;

const SHIPPED: &str = include_str!("shapes/shipped.sql");
const TOP_IDS_FIRST: &str = include_str!("shapes/top_ids_first.sql");
const LOCK_FIRST: &str = include_str!("shapes/lock_first.sql");

const OVERSAMPLE: u32 = 2;
/// One lane, as in the system that the shapes are of, and as many as in the states.
const ACTORS: [u32; 2] = [1, 8];

/// The index that the shapes are dispatched from.
const DISPATCH_INDEX: &str = r#"CREATE INDEX bench_dispatch_idx ON "{schema}".jobs (queue, priority DESC, scheduled_at)
    WHERE status = 'pending'"#;
/// The index of v3, which holds all that candidates are judged by.
const COVERING_INDEX: &str = r#"CREATE INDEX bench_covering_idx
    ON "{schema}".jobs (queue, priority DESC, scheduled_at, id)
    INCLUDE (actor, cohort, identity_key, fairness_key, schedule_to_close) WHERE status = 'pending'"#;

const JIT_OFF: &str = "jit = off";
const GENERIC: &str = "plan_cache_mode = force_generic_plan";

/// A shape in a session of some settings.
#[derive(Clone, Copy, Debug)]
struct Shape {
    name: &'static str,
    text: Text,
    settings: &'static [&'static str],
    /// Whether it takes what the others take. The one that does not is known for it.
    exact: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Text {
    Ours,
    Shipped,
    LockFirst,
    /// The ids first, bounded by expressions.
    Bounded,
    /// The same, bounded by numbers.
    Literal,
}

const OURS: &str = "claim";
const V1B: &str = "v1b";

const SHAPES: [Shape; 9] = [
    Shape { name: OURS, text: Text::Ours, settings: &[JIT_OFF], exact: true },
    Shape { name: "claim, jit on", text: Text::Ours, settings: &[], exact: true },
    Shape { name: "shipped", text: Text::Shipped, settings: &[JIT_OFF], exact: true },
    Shape { name: "v1", text: Text::Bounded, settings: &[JIT_OFF], exact: true },
    Shape { name: "v1, generic plan", text: Text::Bounded, settings: &[JIT_OFF, GENERIC], exact: false },
    Shape { name: "v2", text: Text::LockFirst, settings: &[JIT_OFF], exact: true },
    Shape { name: V1B, text: Text::Literal, settings: &[JIT_OFF], exact: true },
    Shape { name: "v1b, generic plan", text: Text::Literal, settings: &[JIT_OFF, GENERIC], exact: true },
    Shape { name: "v1b, jit on", text: Text::Literal, settings: &["jit = on"], exact: true },
];

/// Measured behind the others, once the table has the index of v3, with the two that it is compared with.
const COVERED: [Shape; 3] = [
    Shape { name: "claim, beside v3", text: Text::Ours, settings: &[JIT_OFF], exact: true },
    Shape { name: "v3", text: Text::Bounded, settings: &[JIT_OFF], exact: true },
    Shape { name: "v1b, beside v3", text: Text::Literal, settings: &[JIT_OFF], exact: true },
];

/// Measures all shapes at all depths.
pub(super) async fn rows(plan: &Plan<'_>, places: &mut Places) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for actors in ACTORS {
        plan.expect(1, SHAPES.len() + COVERED.len());
        let content = Content { actors, cohorts: 0, beside: None };
        let mut workers = Vec::new();
        for depth in plan.depths.iter().copied() {
            plan.progress.say(format!("experiments: {depth} ready"));
            let place = places.get(plan.scene, depth, 0).await?;
            place.renew().await?;
            workers.push(fill::begin(place, Mode::StrictFifo, &content.served()).await?);
            place.control().run(DISPATCH_INDEX).await?;
            fill::fill(place, Mode::StrictFifo, content, depth, plan.progress).await?;
            fill::analyze(place).await?;
        }
        let sites: Vec<_> =
            plan.depths.iter().copied().zip(places.of(&plan.depths, 1)).zip(workers).collect();
        rows.extend(compare(&SHAPES, V1B, content, &sites, plan).await?);
        for ((_, place), _) in &sites {
            place.control().run(COVERING_INDEX).await?;
            fill::analyze(place).await?;
        }
        rows.extend(compare(&COVERED, COVERED[2].name, content, &sites, plan).await?);
    }
    Ok(rows)
}

/// Measures some shapes in tables of different depths, each with the worker that is registered there.
async fn compare(
    shapes: &[Shape],
    base: &str,
    content: Content,
    sites: &[((u64, &Annex), Uuid)],
    plan: &Plan<'_>,
) -> Result<Vec<Row>, Failure> {
    plan.progress.say(format!("experiments: {} claims of each shape", plan.rounds));
    let mut dispatchers = Vec::new();
    for ((depth, place), worker) in sites {
        for shape in shapes {
            let claim = shape.claim(&content.served(), *worker);
            dispatchers.push((
                *depth,
                shape,
                Dispatcher::open(plan.scene, place, shape.settings, &claim).await?,
            ));
        }
    }
    let sessions: Vec<_> = dispatchers.iter().map(|(.., dispatcher)| dispatcher).collect();
    let counted = claims(&sessions, plan).await?;
    let found = |depth: u64, name: &str| {
        let at = dispatchers.iter().position(|(of, shape, _)| *of == depth && shape.name == name);
        at.map(|at| &counted[at])
    };
    let mut rows = Vec::new();
    for ((depth, shape, _), counted) in dispatchers.iter().zip(&counted) {
        let expected = found(*depth, shapes[0].name).and_then(|ours| ours.taken.first());
        let same = counted.taken.iter().all(|taken| Some(&taken.ids) == expected.map(|taken| &taken.ids));
        if shape.exact && !same {
            let name = shape.name;
            return Err(Failure::failed(format!(
                "{name} took other jobs than the claim, with {depth} ready"
            )));
        }
        let mut row = row(*depth, shape, content, counted, same);
        for (what, base) in [("shallowest", found(sites[0].0.0, shape.name)), ("v1b", found(*depth, base))] {
            if let Some(base) = base {
                row = counted.compared(row, base, what);
            }
        }
        rows.push((shape.name, row));
    }
    rows.sort_by_key(|(name, _)| shapes.iter().position(|shape| shape.name == *name));
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

fn row(depth: u64, shape: &Shape, content: Content, counted: &Counted, same: bool) -> Row {
    let actors = content.actors;
    let row = Row::of(shape.name)
        .with("part", format!("experiments, {actors} {}", if actors == 1 { "actor" } else { "actors" }))
        .with("ready", depth)
        .with("claimed", counted.taken.iter().map(|taken| taken.ids.len() as u64).min())
        .with("same_jobs", same)
        .with("settings", shape.settings.join(", "));
    counted.figures(row)
}

impl Shape {
    fn claim(&self, actors: &[String], worker: Uuid) -> Claim {
        let statement = match self.text {
            Text::Ours => return Claim::function(worker),
            Text::Shipped => SHIPPED.to_owned(),
            Text::LockFirst => LOCK_FIRST.to_owned(),
            Text::Bounded => {
                bounded("(SELECT p.wanted * p.oversample FROM params p)", "(SELECT p.wanted FROM params p)")
            }
            Text::Literal => bounded(&(WANT * OVERSAMPLE).to_string(), &WANT.to_string()),
        };
        let list = actors.iter().map(|actor| format!("'{actor}'")).collect::<Vec<_>>().join(", ");
        Claim {
            prepare: format!("(text, text[], integer, uuid, integer) AS {statement}"),
            arguments: format!("'{QUEUE}', ARRAY[{list}], {WANT}, '{worker}', {OVERSAMPLE}"),
        }
    }
}

fn bounded(candidates: &str, wanted: &str) -> String {
    TOP_IDS_FIRST.replace("{candidates}", candidates).replace("{wanted}", wanted)
}
