//! `taskq bench enqueue`: what it takes to enqueue, beside writing the same rows without taskq.

use std::sync::Arc;

use taskq::{Client, Job};
use tokio_postgres::Statement;

use super::callers::{self, Write, Written};
use super::clock::now_ns;
use super::job::{Numbered, refused};
use super::machine::Machine;
use super::plain;
use super::progress::Progress;
use super::report::Report;
use super::rounds::{Rounds, interleave};
use super::scene::{Scene, Session};
use super::times::Times;
use super::transactions;
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
}

impl Write for Writer {
    async fn write(&mut self, job: Numbered) -> Result<(), Failure> {
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
    progress.expect((all + transactions::jobs(args)) * u64::from(rounds.warm_up + rounds.measured));
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
        let names: Vec<_> = cases.iter().map(|by| by.name()).collect();
        rows.extend(callers::rows(&part, cases[0].name(), &names, &written.await?));
    }
    rows.extend(transactions::rows(args, rounds, scene, progress).await?);
    Ok(Report {
        bench: "enqueue",
        server: scene.facts().clone(),
        machine: Machine::look(),
        rows,
        columns: &COLUMNS,
        notes: Vec::new(),
    })
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
    callers::write(writers, jobs).await
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
