//! `taskq bench enqueue`: what it takes to enqueue, beside writing the same rows without taskq.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use taskq::{Client, Job};
use tokio::task::JoinSet;
use tokio_postgres::Statement;

use super::clock::{now_ns, seconds};
use super::job::{Numbered, refused};
use super::machine::Machine;
use super::plain;
use super::progress::Progress;
use super::report::{Report, Row};
use super::rounds::{Rates, Rounds, interleave};
use super::scene::{Scene, Session};
use super::times::Times;
use crate::cli::EnqueueBenchArgs;
use crate::exit::Failure;

const COLUMNS: [&str; 9] = [
    "part",
    "case",
    "jobs",
    "jobs_per_s",
    "jobs_per_s_median",
    "p50_ms",
    "p99_ms",
    "ratio_to_insert",
    "ratio_to_copy",
];

/// How many jobs a connection has written at once before what is measured.
const FIRST: u64 = 500;

const FUNCTION: &str = r#"SELECT id, outcome, status FROM "{schema}".enqueue_many($1::text::jsonb)"#;

/// What writes the jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    /// A prepared insert of one row a call; all callers share one connection.
    Insert,
    /// The same with a connection for each caller.
    InsertApart,
    /// The SQL function, called by a driver.
    Function,
    /// The library's client, which all callers share.
    Client,
    /// A binary COPY.
    Copy,
}

impl By {
    const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::InsertApart => "insert, a connection each",
            Self::Function => "function",
            Self::Client => "client",
            Self::Copy => "copy",
        }
    }
}

/// What writes jobs one by one, for one or more callers.
#[derive(Clone)]
enum Writer {
    Insert(Arc<Session>, Statement),
    Function(Arc<Session>, Statement),
    Client(Client),
}

impl Writer {
    async fn insert(scene: &Scene) -> Result<Self, Failure> {
        let session = scene.session().await?;
        let insert = plain::prepare(&session).await?;
        Ok(Self::Insert(Arc::new(session), insert))
    }

    async fn function(scene: &Scene) -> Result<Self, Failure> {
        let session = scene.session().await?;
        let function = session.client.prepare(&session.sql(FUNCTION)).await?;
        Ok(Self::Function(Arc::new(session), function))
    }

    async fn write(&self, job: Numbered) -> Result<(), Failure> {
        match self {
            Self::Insert(session, insert) => plain::insert(session, insert, job).await,
            Self::Function(session, function) => {
                session.client.query(function, &[&documents(&[job])]).await?;
                Ok(())
            }
            Self::Client(client) => client.enqueue(&job).await.map(drop).map_err(|error| refused(&error)),
        }
    }
}

/// One round of a case.
struct Written {
    jobs: u64,
    elapsed_ns: u64,
    /// How long each call took.
    calls: Times,
}

impl Written {
    #[expect(clippy::cast_precision_loss, reason = "a rate is computed")]
    fn rate(&self) -> f64 {
        self.jobs as f64 / seconds(self.elapsed_ns)
    }
}

/// Runs the benchmark.
pub(super) async fn run(
    args: &EnqueueBenchArgs,
    scene: &Scene,
    progress: &Progress,
) -> Result<Report, Failure> {
    let rounds = Rounds { warm_up: 1, measured: args.repeats.repeats };
    let parts = [
        ("one at a time".to_owned(), &[By::Insert, By::Function, By::Client][..], args.calls, 1),
        (
            format!("{} callers", args.callers),
            &[By::Insert, By::InsertApart, By::Client],
            args.calls,
            args.callers,
        ),
        (format!("{} in one call", args.batch), &[By::Copy, By::Function, By::Client], args.batch, 0),
    ];
    let all: u64 = parts.iter().map(|(_, cases, jobs, _)| cases.len() as u64 * jobs).sum();
    progress.expect(all * u64::from(rounds.warm_up + rounds.measured));
    let mut rows = Vec::new();
    for (part, cases, jobs, callers) in parts {
        let written = interleave(rounds, cases, async |by, _| {
            progress.say(format!("{part}: {}", by.name()));
            scene.empty().await?;
            let written = if callers == 0 {
                in_one_call(scene, *by, jobs).await
            } else {
                one_by_one(scene, *by, jobs, callers).await
            };
            progress.advance(jobs);
            written
        });
        rows.extend(rows_of(&part, cases, &written.await?));
    }
    Ok(Report {
        bench: "enqueue",
        server: scene.facts().clone(),
        machine: Machine::look(),
        rows,
        columns: &COLUMNS,
        notes: Vec::new(),
    })
}

fn rows_of(part: &str, cases: &[By], written: &[Vec<Written>]) -> Vec<Row> {
    let rates: Vec<_> = written.iter().map(|rounds| Rates::of(rounds.iter().map(Written::rate))).collect();
    let row = |at: usize| {
        let mut calls = Times::new();
        written[at].iter().for_each(|round| calls.add(&round.calls));
        let ratio = if cases[0] == By::Copy { "ratio_to_copy" } else { "ratio_to_insert" };
        let median = if cases[0] == By::Copy { "ratio_to_copy_median" } else { "ratio_to_insert_median" };
        Row::of(cases[at].name())
            .with("part", part)
            .with("jobs", written[at].first().map(|round| round.jobs))
            .with("rounds", written[at].len() as u64)
            .with("jobs_per_s", rates[at].best())
            .with("jobs_per_s_median", rates[at].median())
            .with("p50_ms", calls.at_ms(0.5))
            .with("p99_ms", calls.at_ms(0.99))
            .with(ratio, rates[at].ratio_to(&rates[0]))
            .with(median, rates[at].median_ratio_to(&rates[0]))
    };
    (0..cases.len()).map(row).collect()
}

/// Lets callers write one job a call, each its next one when the last is committed.
async fn one_by_one(scene: &Scene, by: By, jobs: u64, callers: u32) -> Result<Written, Failure> {
    let mut writers = Vec::new();
    for caller in 0..callers {
        writers.push(match (by, writers.first()) {
            (By::Insert | By::Function | By::Client, Some(shared)) => Writer::clone(shared),
            (By::Function, None) => Writer::function(scene).await?,
            (By::Client, None) => Writer::Client(scene.client().await?),
            (By::Insert | By::InsertApart | By::Copy, _) => Writer::insert(scene).await?,
        });
        // The connection is open and its statement prepared.
        if by == By::InsertApart || caller == 0 {
            writers[caller as usize].write(Numbered { n: 0 }).await?;
        }
    }
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    let began_ns = now_ns();
    for writer in writers {
        let next = Arc::clone(&next);
        tasks.spawn(async move {
            let mut calls = Times::new();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= jobs {
                    return Ok::<_, Failure>(calls);
                }
                let called_ns = now_ns();
                writer.write(Numbered { n }).await?;
                calls.note(now_ns() - called_ns);
            }
        });
    }
    let mut calls = Times::new();
    while let Some(task) = tasks.join_next().await {
        calls.add(&task.map_err(|error| Failure::failed(error.to_string()))??);
    }
    Ok(Written { jobs, elapsed_ns: now_ns() - began_ns, calls })
}

/// Writes many jobs at once. Making the rows or documents of the jobs is part of it.
async fn in_one_call(scene: &Scene, by: By, jobs: u64) -> Result<Written, Failure> {
    let numbered: Vec<_> = (0..jobs).map(|n| Numbered { n }).collect();
    // As many as take the same way, so that what a connection's first call does is done before, in all cases.
    let first: Vec<_> = (0..FIRST).map(|n| Numbered { n }).collect();
    let (mut calls, elapsed_ns) = (
        Times::new(),
        match by {
            By::Client => {
                let client = scene.client().await?;
                client.enqueue_many::<Numbered>(&first).await.map_err(|error| refused(&error))?;
                let began_ns = now_ns();
                client.enqueue_many::<Numbered>(&numbered).await.map_err(|error| refused(&error))?;
                now_ns() - began_ns
            }
            By::Function => {
                let session = scene.session().await?;
                let function = session.client.prepare(&session.sql(FUNCTION)).await?;
                session.client.query(&function, &[&documents(&first)]).await?;
                let began_ns = now_ns();
                session.client.query(&function, &[&documents(&numbered)]).await?;
                now_ns() - began_ns
            }
            By::Copy | By::Insert | By::InsertApart => {
                let session = scene.session().await?;
                plain::copy(&session, first.iter().copied(), &[Numbered::ACTOR]).await?;
                let began_ns = now_ns();
                plain::copy(&session, numbered.iter().copied(), &[Numbered::ACTOR]).await?;
                now_ns() - began_ns
            }
        },
    );
    calls.note(elapsed_ns);
    let count = r#"SELECT count(*) FROM "{schema}".jobs WHERE status = 'pending'"#;
    let found: i64 = scene.control().one(count, &[]).await?.get(0);
    if u64::try_from(found).ok() != Some(jobs + FIRST) {
        return Err(Failure::failed(format!("{} wrote {found} jobs instead of {}", by.name(), jobs + FIRST)));
    }
    Ok(Written { jobs, elapsed_ns, calls })
}

/// Writes the document of some jobs, as a caller in any language would.
fn documents(jobs: &[Numbered]) -> String {
    let (queue, actor) = (Numbered::QUEUE, Numbered::ACTOR);
    let of_job = |job: &Numbered| {
        format!(r#"{{"queue":"{queue}","actor":"{actor}","payload":{{"n":{}}},"notify":"none"}}"#, job.n)
    };
    format!("[{}]", jobs.iter().map(of_job).collect::<Vec<_>>().join(","))
}
