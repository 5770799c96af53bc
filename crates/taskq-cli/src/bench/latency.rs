//! `taskq bench latency`: from the call that enqueues a job to the start of its handler in another process. Both read
//! the machine's monotonic clock.

use std::collections::HashMap;
use std::time::Duration;

use taskq::{Client, Job};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::child::Body;
use super::clock::{now_ns, seconds};
use super::crew::Crew;
use super::drain::orders;
use super::job::{Numbered, refused};
use super::machine::Machine;
use super::plain;
use super::progress::Progress;
use super::report::{Report, Row};
use super::scene::Scene;
use super::times::Times;
use crate::cli::LatencyArgs;
use crate::exit::Failure;

/// Jobs before those that count: connections are opened and statements prepared.
const WARM_UP: u64 = 50;
/// After a job is started, the worker is given this much time to be idle again, and a random part of as much more, so
/// that no period of its own is hit again and again.
const REST_MS: u64 = 10;
const COLUMNS: [&str; 10] = [
    "case",
    "jobs",
    "rate_per_s",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "max_ms",
    "enqueue_p50_ms",
    "late_p99_ms",
    "ratio_to_statements",
];
/// What a claim has to do at the least.
const TAKE: &str = r#"
    UPDATE "{schema}".jobs SET status = 'running', locked_by_worker = $2, started_at = now() WHERE id = $1 RETURNING payload
"#;

/// Runs the benchmark.
pub(super) async fn run(args: &LatencyArgs, scene: &Scene, progress: &Progress) -> Result<Report, Failure> {
    let random = u64::from(args.rate) * u64::from(args.seconds);
    progress.expect(2 * (WARM_UP + u64::from(args.jobs)) + random);
    progress.say("two statements");
    two_statements(scene, WARM_UP, progress).await?;
    let least = two_statements(scene, u64::from(args.jobs), progress).await?;
    scene.empty().await?;
    let client = scene.client().await?;
    let mut crew = Crew::start(&orders(scene, args.slots, 1, 1, Body::Tell)).await?;
    crew.go().await?;

    progress.say("one at a time");
    one_at_a_time(&client, &mut crew, 0, WARM_UP, progress).await?;
    let alone = one_at_a_time(&client, &mut crew, WARM_UP, u64::from(args.jobs), progress).await?;
    progress.say("at random times");
    let first = WARM_UP + u64::from(args.jobs);
    let busy = at_random(&client, &mut crew, first, args, progress).await?;
    crew.stop().await?;

    Ok(Report {
        bench: "latency",
        server: scene.facts().clone(),
        machine: Machine::look(),
        rows: vec![
            least.row("two statements", 0),
            alone
                .row("one at a time", args.slots)
                .with("ratio_to_statements", alone.pickup.at_ms(0.5) / least.pickup.at_ms(0.5)),
            busy.row("at random times", args.slots)
                .with("rate_per_s", busy.rate())
                .with("late_p99_ms", busy.late.at_ms(0.99)),
        ],
        columns: &COLUMNS,
        notes: Vec::new(),
    })
}

/// What was measured of some jobs.
struct Picked {
    /// From the call to the start of the handler.
    pickup: Times,
    /// From the call to its return, when the job is committed.
    enqueue: Times,
    /// How late the calls were made.
    late: Times,
    elapsed_s: f64,
}

impl Picked {
    fn new() -> Self {
        Self { pickup: Times::new(), enqueue: Times::new(), late: Times::new(), elapsed_s: 0.0 }
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate is computed")]
    fn rate(&self) -> f64 {
        self.pickup.len() as f64 / self.elapsed_s
    }

    fn row(&self, case: &str, slots: u32) -> Row {
        Row::of(case)
            .with("jobs", self.pickup.len())
            .with("slots", slots)
            .with("p50_ms", self.pickup.at_ms(0.5))
            .with("p95_ms", self.pickup.at_ms(0.95))
            .with("p99_ms", self.pickup.at_ms(0.99))
            .with("max_ms", self.pickup.max_ms())
            .with("enqueue_p50_ms", self.enqueue.at_ms(0.5))
            .with("enqueue_p99_ms", self.enqueue.at_ms(0.99))
    }
}

/// What nobody who writes a job, is told of it, and takes it durably can undercut here: an insert that notifies, the
/// notification, and an update of the row by its key, each on a connection of its own that was idle.
async fn two_statements(scene: &Scene, jobs: u64, progress: &Progress) -> Result<Picked, Failure> {
    let (writer, taker) = (scene.session().await?, scene.session().await?);
    let (listener, mut told) = scene.listener("bench").await?;
    let write = format!("WITH written AS ({}) SELECT pg_notify('bench', '')", plain::INSERT);
    let write = writer.client.prepare(&writer.sql(&write)).await?;
    let take = taker.client.prepare(&taker.sql(TAKE)).await?;
    let mut picked = Picked::new();
    for n in 0..jobs {
        tokio::time::sleep(Duration::from_millis(REST_MS + fastrand::u64(0..REST_MS))).await;
        let id = Uuid::now_v7();
        let called_ns = now_ns();
        writer
            .client
            .query_one(&write, &[&id, &Numbered::QUEUE, &Numbered::ACTOR, &Json(Numbered { n })])
            .await?;
        picked.enqueue.note(now_ns() - called_ns);
        told.recv().await.ok_or_else(|| Failure::failed("the listening connection ended"))?;
        taker.client.query_one(&take, &[&id, &id]).await?;
        picked.pickup.note(now_ns() - called_ns);
        progress.advance(1);
    }
    drop(listener);
    Ok(picked)
}

async fn one_at_a_time(
    client: &Client,
    crew: &mut Crew,
    first: u64,
    jobs: u64,
    progress: &Progress,
) -> Result<Picked, Failure> {
    let mut picked = Picked::new();
    for n in first..first + jobs {
        tokio::time::sleep(Duration::from_millis(REST_MS + fastrand::u64(0..REST_MS))).await;
        let called_ns = now_ns();
        client.enqueue(&Numbered { n }).await.map_err(|error| refused(&error))?;
        picked.enqueue.note(now_ns() - called_ns);
        let started_ns = loop {
            let (started, at_ns) = crew.started().await?;
            if started == n {
                break at_ns;
            }
        };
        picked.pickup.note(started_ns.saturating_sub(called_ns));
        progress.advance(1);
    }
    Ok(picked)
}

/// Lets jobs arrive at random, each at a time of its own whatever became of those before it.
async fn at_random(
    client: &Client,
    crew: &mut Crew,
    first: u64,
    args: &LatencyArgs,
    progress: &Progress,
) -> Result<Picked, Failure> {
    let mut picked = Picked::new();
    let jobs = u64::from(args.rate) * u64::from(args.seconds);
    let began_ns = now_ns();
    let mut arrivals = arrivals(jobs, args.rate, began_ns);
    let (mut calls, mut called, mut started) = (JoinSet::new(), HashMap::new(), HashMap::new());
    while picked.pickup.len() < jobs {
        tokio::select! {
            Some(due_ns) = arrivals.recv() => {
                let n = first + called.len() as u64;
                let called_ns = now_ns();
                called.insert(n, called_ns);
                picked.late.note(called_ns.saturating_sub(due_ns));
                let client = client.clone();
                calls.spawn(async move { client.enqueue(&Numbered { n }).await.map(|_| now_ns() - called_ns) });
            }
            Some(call) = calls.join_next() => {
                let took_ns = call.map_err(|error| Failure::failed(error.to_string()))?.map_err(|error| refused(&error))?;
                picked.enqueue.note(took_ns);
            }
            start = crew.started() => {
                let (n, at_ns) = start?;
                // A job that runs twice has been picked up once.
                if let Some(called_ns) = called.get(&n) && started.insert(n, at_ns).is_none() {
                    picked.pickup.note(at_ns.saturating_sub(*called_ns));
                    progress.advance(1);
                }
            }
        }
    }
    picked.elapsed_s = seconds(now_ns() - began_ns);
    Ok(picked)
}

/// Sends the times at which jobs arrive, when they have come: a thread waits more exactly than a timer of the runtime.
fn arrivals(jobs: u64, rate: u32, began_ns: u64) -> mpsc::UnboundedReceiver<u64> {
    let (send, receive) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        // The same arrivals in every run.
        let mut random = fastrand::Rng::with_seed(1);
        let mut due_s = 0.0;
        for _ in 0..jobs {
            due_s -= (1.0 - random.f64()).ln() / f64::from(rate);
            let due_ns =
                began_ns + u64::try_from(Duration::from_secs_f64(due_s).as_nanos()).unwrap_or(u64::MAX);
            std::thread::sleep(Duration::from_nanos(due_ns.saturating_sub(now_ns())));
            if send.send(due_ns).is_err() {
                return;
            }
        }
    });
    receive
}
