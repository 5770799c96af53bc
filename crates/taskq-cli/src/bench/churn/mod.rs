//! `taskq bench churn`: how the table of jobs keeps its size, and claims their time, when jobs come and go for long, with
//! different settings of its storage side by side.

mod table;
mod variants;

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_postgres::Statement;
use uuid::Uuid;

use self::table::{Cost, Counters, Size};
use self::variants::{VARIANTS, Variant};
use super::clock::now_ns;
use super::machine::Machine;
use super::progress::Progress;
use super::report::{Report, Row};
use super::scene::{Annex, Scene, Session};
use super::times::Times;
use crate::cli::ChurnArgs;
use crate::exit::Failure;

/// How often jobs come, are claimed and settled.
const TICK: Duration = Duration::from_millis(100);
/// How often finished jobs leave, as the leader's sweep has them leave.
const SWEEP: Duration = Duration::from_secs(1);
/// How often the sizes are read.
const LOOK: Duration = Duration::from_secs(5);
const QUEUE: &str = "churn";
const ACTOR: &str = "churn";

const COLUMNS: [&str; 16] = [
    "case",
    "payload_bytes",
    "jobs_per_s",
    "heap_half_bytes",
    "heap_bytes",
    "index_half_bytes",
    "index_bytes",
    "toast_bytes",
    "dead_rows_max",
    "vacuums",
    "hot_share",
    "wal_bytes_per_job",
    "buffers_per_claim",
    "buffers_per_settle",
    "claim_p95_ms",
    "claim_p95_late_ratio",
];

const ENQUEUE: &str = r#"SELECT count(*) FROM "{schema}".enqueue_many($1::text::jsonb)"#;
const REGISTER: &str =
    r#"SELECT "{schema}".register_worker($1, ARRAY[$2], ARRAY[$3], interval '1 day', NULL)"#;
const CLAIM: &str = r#"SELECT id, epoch FROM "{schema}".claim(ARRAY[$1::text], $2, $3, interval '1 day')"#;
const SETTLE: &str = r#"
    SELECT count(*) FROM "{schema}".settle($1, (
        SELECT jsonb_agg(jsonb_build_object('id', s.id, 'epoch', s.epoch, 'outcome', 'succeeded'))
        FROM unnest($2::uuid[], $3::bigint[]) s(id, epoch)))
"#;
/// Oldest first, a bounded batch, by the index that the sweep of finished jobs reads.
const LEAVE: &str = r#"
    DELETE FROM "{schema}".jobs j
    WHERE j.ctid = ANY (ARRAY(
        SELECT f.ctid FROM "{schema}".jobs f
        WHERE f.prune_at <= now() + interval '1 hour' - make_interval(secs => $1)
        ORDER BY f.prune_at, f.id
        LIMIT 10000))
"#;

/// Runs the benchmark.
pub(super) async fn run(args: &ChurnArgs, scene: &Scene, progress: &Progress) -> Result<Report, Failure> {
    progress.expect(u64::from(args.seconds));
    progress.say("filling");
    let mut tables = Vec::new();
    for variant in &VARIANTS {
        let annex = scene.annex(variant.name).await?;
        annex.control().run(variant.alter).await?;
        tables.push((variant, Churn::begin(&annex, variant, args).await?, annex));
    }
    let mut before = Vec::new();
    for (_, _, annex) in &tables {
        before.push(Cost::read(scene, annex.control()).await?);
    }
    progress.say("jobs come and go");
    let began = Instant::now();
    let mut running = JoinSet::new();
    let mut annexes = Vec::new();
    for (at, (variant, churn, annex)) in tables.into_iter().enumerate() {
        let seconds = args.seconds;
        running.spawn(async move { churn.run(seconds).await.map(|gone| (at, gone)) });
        annexes.push((variant, annex));
    }
    let watch = watch(&annexes, began, args.seconds, progress);
    let (seen, gone) = tokio::join!(watch, async {
        let mut gone: Vec<Option<Gone>> = VARIANTS.iter().map(|_| None).collect();
        while let Some(ended) = running.join_next().await {
            let (at, one) = ended.map_err(|error| Failure::failed(error.to_string()))??;
            gone[at] = Some(one);
        }
        Ok::<_, Failure>(gone)
    });
    let (seen, gone) = (seen?, gone?);
    let mut rows = Vec::new();
    for ((((variant, annex), seen), gone), before) in
        annexes.iter().zip(seen).zip(gone.into_iter().flatten()).zip(before)
    {
        let last = Counters::read(annex.control()).await?;
        let cost = Cost::read(scene, annex.control()).await?.zip(before);
        let cost = cost.map(|(after, before)| after.since(before));
        rows.push(row(variant, &seen, &last, &gone, cost, args));
    }
    Ok(Report {
        bench: "churn",
        server: scene.facts().clone(),
        machine: Machine::look(),
        rows,
        columns: &COLUMNS,
        notes: vec![format!(
            "{} jobs a second in each table, {} ready all the time; finished ones leave after {} s; {} s in all. `half` is \
             half-way; the late ratio is the p95 of claims in the last third by that in the first.",
            args.rate, args.ready, args.hot_seconds, args.seconds
        )],
    })
}

/// What jobs come and go in.
struct Churn {
    session: Session,
    worker: Uuid,
    enqueue: Statement,
    claim: Statement,
    settle: Statement,
    leave: Statement,
    per_tick: u32,
    hot_seconds: f64,
    payload: String,
}

/// What came of a table.
struct Gone {
    jobs: u64,
    elapsed: Duration,
    early: Times,
    late: Times,
    all: Times,
}

impl Churn {
    /// Fills a table with ready jobs.
    async fn begin(annex: &Annex, variant: &Variant, args: &ChurnArgs) -> Result<Self, Failure> {
        let session = annex.session().await?;
        let worker = Uuid::now_v7();
        session.one(REGISTER, &[&worker, &QUEUE, &ACTOR]).await?;
        let prepare = async |text: &str| session.client.prepare(&session.sql(text)).await;
        let (enqueue, claim) = (prepare(ENQUEUE).await?, prepare(CLAIM).await?);
        let (settle, leave) = (prepare(SETTLE).await?, prepare(LEAVE).await?);
        let per_tick = args.rate.div_ceil(10);
        let mut random = fastrand::Rng::with_seed(1);
        let payload = std::iter::repeat_with(|| random.alphanumeric()).take(variant.payload_bytes).collect();
        let hot_seconds = f64::from(args.hot_seconds);
        let churn = Self { session, worker, enqueue, claim, settle, leave, per_tick, hot_seconds, payload };
        let mut left = args.ready;
        while left > 0 {
            let batch = left.min(1_000);
            churn.enqueue(batch).await?;
            left -= batch;
        }
        Ok(churn)
    }

    async fn run(self, seconds: u32) -> Result<Gone, Failure> {
        let (began, all) = (Instant::now(), Duration::from_secs(seconds.into()));
        let mut ticks = interval(TICK);
        // Those that were missed are made up for, so that the rate is kept.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut gone = Gone {
            jobs: 0,
            elapsed: Duration::ZERO,
            early: Times::new(),
            late: Times::new(),
            all: Times::new(),
        };
        let mut sweep_at = began + SWEEP;
        while began.elapsed() < all {
            ticks.tick().await;
            self.enqueue(self.per_tick).await?;
            let called_ns = now_ns();
            let want = i32::try_from(self.per_tick).unwrap_or(i32::MAX);
            let claimed = self.session.client.query(&self.claim, &[&QUEUE, &want, &self.worker]).await?;
            let took_ns = now_ns() - called_ns;
            gone.all.note(took_ns);
            match began.elapsed() {
                elapsed if elapsed < all / 3 => gone.early.note(took_ns),
                elapsed if elapsed >= all * 2 / 3 => gone.late.note(took_ns),
                _ => {}
            }
            let ids: Vec<Uuid> = claimed.iter().map(|row| row.get(0)).collect();
            let epochs: Vec<i64> = claimed.iter().map(|row| row.get(1)).collect();
            self.session.client.query_one(&self.settle, &[&self.worker, &ids, &epochs]).await?;
            gone.jobs += ids.len() as u64;
            if Instant::now() >= sweep_at {
                sweep_at += SWEEP;
                self.session.client.execute(&self.leave, &[&self.hot_seconds]).await?;
            }
        }
        gone.elapsed = began.elapsed();
        Ok(gone)
    }

    async fn enqueue(&self, jobs: u32) -> Result<(), Failure> {
        let job =
            format!(r#"{{"queue":"{QUEUE}","actor":"{ACTOR}","payload":{{"data":"{}"}}}}"#, self.payload);
        let documents = format!("[{}]", vec![job; jobs as usize].join(","));
        self.session.client.query_one(&self.enqueue, &[&documents]).await?;
        Ok(())
    }
}

/// What was seen of a table while jobs came and went.
#[derive(Default)]
struct Seen {
    half: Size,
    end: Size,
    dead_rows_max: u64,
}

/// Reads the sizes of all tables now and then.
async fn watch(
    annexes: &[(&'static Variant, Annex)],
    began: Instant,
    seconds: u32,
    progress: &Progress,
) -> Result<Vec<Seen>, Failure> {
    let mut seen: Vec<Seen> = annexes.iter().map(|_| Seen::default()).collect();
    let (all, mut told) = (Duration::from_secs(seconds.into()), 0);
    loop {
        tokio::time::sleep(LOOK.min(all / 4)).await;
        let elapsed = began.elapsed().min(all);
        for ((_, annex), seen) in annexes.iter().zip(&mut seen) {
            let size = Size::read(annex.control()).await?;
            let counters = Counters::read(annex.control()).await?;
            seen.dead_rows_max = seen.dead_rows_max.max(counters.dead_rows);
            if elapsed <= all / 2 {
                seen.half = size;
            }
            seen.end = size;
        }
        progress.advance(elapsed.as_secs() - told);
        told = elapsed.as_secs();
        if elapsed >= all {
            return Ok(seen);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "shares and rates are computed")]
fn row(
    variant: &Variant,
    seen: &Seen,
    counters: &Counters,
    gone: &Gone,
    cost: Option<Cost>,
    args: &ChurnArgs,
) -> Row {
    Row::of(variant.case)
        .with("payload_bytes", variant.payload_bytes as u64)
        .with("rate_per_s", args.rate)
        .with("seconds", args.seconds)
        .with("jobs", gone.jobs)
        .with("jobs_per_s", gone.jobs as f64 / gone.elapsed.as_secs_f64())
        .with("heap_half_bytes", seen.half.heap)
        .with("heap_bytes", seen.end.heap)
        .with("index_half_bytes", seen.half.indexes)
        .with("index_bytes", seen.end.indexes)
        .with("toast_half_bytes", seen.half.toast)
        .with("toast_bytes", seen.end.toast)
        .with("dead_rows_max", seen.dead_rows_max)
        .with("vacuums", counters.vacuums)
        .with("hot_share", counters.hot_updates as f64 / counters.updates.max(1) as f64)
        .with("wal_bytes_per_job", cost.map(|cost| cost.wal_bytes as f64 / gone.jobs.max(1) as f64))
        .with("buffers_per_claim", cost.map(|cost| cost.claim_buffers as f64 / cost.claims.max(1) as f64))
        .with("buffers_per_settle", cost.map(|cost| cost.settle_buffers as f64 / cost.claims.max(1) as f64))
        .with("claim_p50_ms", gone.all.at_ms(0.5))
        .with("claim_p95_ms", gone.all.at_ms(0.95))
        .with("claim_p95_late_ratio", gone.late.at_ms(0.95) / gone.early.at_ms(0.95))
}
