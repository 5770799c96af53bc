//! `taskq demo`: a private server, a worker, and one job for each file of a directory.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use serde::Serialize;
use taskq::store::JobFilter;
use taskq::{
    Client, DEFAULT_SLOTS, Job as _, JobId, NewJob, QueueName, RunError, Worker, install_panic_hook,
};
use taskq_testkit::PrivateServer;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::connect::connect;
use super::{migrate, server, signals};
use crate::cli::DemoArgs;
use crate::config::{self, DatabaseSettings, GivenDatabase};
use crate::demo::{DigestFile, Digester, Outstanding, Progress, Skipped, Summary, Tally, report, walk};
use crate::exit::{Exit, Failure, with_sources};
use crate::output;

/// How many jobs are enqueued in one call.
const BATCH: usize = 1_000;
/// How often jobs that are not heard of are looked up.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How many ended jobs are read in one call.
const PAGE: u32 = 1_000;

/// Runs the demo and prints what it amounted to.
pub(super) async fn run(args: DemoArgs, given: GivenDatabase) -> Result<Exit, Failure> {
    if let (true, Some(dsn)) = (args.keep, &given.dsn) {
        let source = &dsn.source;
        return Err(Failure::usage(format!(
            "--keep is for a private server; with a DSN ({source}) the jobs stay where they are"
        )));
    }
    let mut files = Files::find(&args.directory).await?;
    let mut ended = signals::Ended::listen()?;
    let interrupt = CancellationToken::new();
    let cancel = interrupt.clone();
    tokio::spawn(async move {
        ended.wait().await;
        cancel.cancel();
    });
    with_server(&args, given, &mut files, &interrupt).await
}

fn interrupted() -> Failure {
    Failure::failed("interrupted: the demo did not finish")
}

async fn with_server(
    args: &DemoArgs,
    given: GivenDatabase,
    files: &mut Files,
    interrupt: &CancellationToken,
) -> Result<Exit, Failure> {
    let progress = Progress::new();
    if given.dsn.is_some() {
        let database = config::database(given)?;
        // Someone's own database: what is missing there is for them to bring up to date.
        let summary = with_database(&database, files, &progress, interrupt).await?;
        return finish(args, &database, &summary, None).await;
    }
    progress.phase("starting PostgreSQL");
    let server = interrupt.run_until_cancelled(server::start()).await.ok_or_else(interrupted)??;
    let database = config::private_database(given, server.dsn())?;
    progress.phase("creating the schema");
    interrupt.run_until_cancelled(migrate::up(&database)).await.ok_or_else(interrupted)??;
    progress.phase("");
    let summary = with_database(&database, files, &progress, interrupt).await?;
    finish(args, &database, &summary, Some(server)).await
}

/// Runs a worker over the jobs of all files, and draws the sum once all have ended.
async fn with_database(
    database: &DatabaseSettings,
    files: &mut Files,
    progress: &Progress,
    interrupt: &CancellationToken,
) -> Result<Summary, Failure> {
    install_panic_hook();
    let client = connect(database).await?;
    let outstanding = Outstanding::default();
    let handler = Digester { outstanding: outstanding.clone(), progress: progress.clone() };
    let worker = Worker::builder(&client)
        .queue(DigestFile::QUEUE, DEFAULT_SLOTS)
        .handle::<DigestFile>(handler)
        .build()
        .map_err(|error| Failure::failed(error.to_string()))?
        .start();

    let first = JobId::new();
    let run = format!("run {first}");
    let stopper = worker.stopper();
    let mut stopped = pin!(worker.join());
    let drained = tokio::select! {
        drained = drain(&client, files, &run, &outstanding, progress) => drained,
        // It was not asked to: it was refused.
        ended = &mut stopped => return Err(ended.map_or_else(refused, |_| Failure::failed("the worker stopped"))),
        () = interrupt.cancelled() => {
            stopper.stop_now();
            Err(interrupted())
        }
        never = progress.lines() => match never {},
    };
    progress.finish();
    // Also when the drain failed: what ended is recorded, and what has not goes back.
    stopper.stop();
    let stopped = stopped.await;
    let (enqueued, skipped) = drained?;
    stopped.map_err(refused)?;
    let summary = summarise(&client, first, &run, skipped).await?;
    match enqueued.saturating_sub(summary.jobs) {
        0 => Ok(summary),
        left => Err(Failure::failed(format!("{left} of {enqueued} jobs have not ended"))),
    }
}

/// Enqueues a job for each file and waits until all have ended. Returns how many there were, and what was left
/// out.
async fn drain(
    client: &Client,
    files: &mut Files,
    run: &str,
    outstanding: &Outstanding,
    progress: &Progress,
) -> Result<(u64, Skipped), Failure> {
    let mut enqueued = 0;
    while let Some(paths) = files.next_batch().await {
        let jobs = paths
            .into_iter()
            .map(|path| DigestFile::new_job(path, run))
            .collect::<Result<Vec<NewJob>, _>>()?;
        let number = jobs.len() as u64;
        // Before they are written: one may have ended when the call returns.
        outstanding.expect(jobs.iter().map(|job| job.id));
        progress.enqueued(number);
        client.enqueue_raw(jobs).await.map_err(|error| Failure::failed(with_sources(&error)))?;
        enqueued += number;
    }
    let skipped = files.skipped().await?;
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.reset();
    loop {
        tokio::select! {
            () = outstanding.all_ended() => return Ok((enqueued, skipped)),
            _ = looks.tick() => {
                // Ended without this worker's knowledge: by another worker, or by the leader.
                let endings = client.store().endings(outstanding.some(BATCH)).await?;
                let over = endings.iter().filter(|ending| ending.status.is_terminal());
                progress.ended(outstanding.ended(over.map(|ending| ending.id)));
            }
        }
    }
}

fn refused(error: RunError) -> Failure {
    match error {
        RunError::Refused(error) => error.into(),
        other => Failure::failed(with_sources(&other)),
    }
}

/// Reads the jobs of this run, page by page, and draws the sum.
async fn summarise(client: &Client, first: JobId, run: &str, skipped: Skipped) -> Result<Summary, Failure> {
    let queue = QueueName::new(DigestFile::QUEUE).map_err(|error| Failure::failed(error.to_string()))?;
    let mut tally = Tally::new();
    let mut before = None;
    loop {
        let filter = JobFilter { queue: Some(queue.clone()), before, limit: PAGE, ..JobFilter::default() };
        let jobs = client.store().jobs(filter).await?;
        let ours = jobs.iter().filter(|job| job.tags.iter().any(|tag| tag == run));
        for job in ours.filter(|job| job.status.is_terminal()) {
            let file = job.payload.parse::<DigestFile>().map(|digest| digest.path).unwrap_or_default();
            tally.add(job, &file);
        }
        match jobs.last() {
            // Ids only grow, so what comes before the first of this run is someone else's.
            Some(last) if jobs.len() == PAGE as usize && last.id > first => before = Some(last.id),
            _ => return Ok(tally.summary(skipped)),
        }
    }
}

#[derive(Serialize)]
struct Facts<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    kept: Option<Kept>,
}

/// A server that was left running.
#[derive(Serialize)]
struct Kept {
    dsn: String,
    stop_command: String,
}

async fn finish(
    args: &DemoArgs,
    database: &DatabaseSettings,
    summary: &Summary,
    server: Option<PrivateServer>,
) -> Result<Exit, Failure> {
    let private = server.is_some();
    let kept = match server {
        Some(server) if args.keep => {
            let kept = server.keep().await.map_err(|error| Failure::failed(with_sources(&error)))?;
            Some(Kept { dsn: kept.dsn, stop_command: kept.stop_command })
        }
        Some(server) => {
            server.stop().await.map_err(|error| Failure::failed(with_sources(&error)))?;
            None
        }
        None => None,
    };
    if args.output.json {
        output::json(&Facts { summary, kept })?;
        return Ok(Exit::Done);
    }
    output::line(&report(summary))?;
    output::line(&match &kept {
        Some(kept) => {
            format!("\nThe server is left running. To look further:\n{}", commands(&kept.dsn, database))
                + &format!("\nTo stop it and remove its data:\n  {}", kept.stop_command)
        }
        None if private => "\nThe private server is gone. To look further: taskq demo --keep".to_owned(),
        None => format!("\nTo look further:\n{}", LOOKS.map(|look| format!("  taskq {look}")).join("\n")),
    })?;
    Ok(Exit::Done)
}

/// What there is to look at after a demo.
const LOOKS: [&str; 4] =
    ["stats", "queue list", "job list --queue demo --limit 10", "job list --queue demo --status failed"];

fn commands(dsn: &str, database: &DatabaseSettings) -> String {
    let schema = if database.schema == taskq::SchemaName::default() {
        String::new()
    } else {
        format!("\n  export TASKQ_SCHEMA_NAME='{}'", database.schema)
    };
    let looks = LOOKS.map(|look| format!("\n  taskq {look}")).concat();
    format!("  export TASKQ_PG_DSN='{dsn}'{schema}{looks}\n  psql '{dsn}'")
}

/// The files that become jobs, found on another thread while the first ones run already.
struct Files {
    first: Option<String>,
    paths: mpsc::Receiver<String>,
    walking: Option<JoinHandle<io::Result<Skipped>>>,
}

impl Files {
    /// Starts to look for files; returns once there is one.
    async fn find(directory: &Path) -> Result<Self, Failure> {
        let shown = directory.display();
        // Absolute, so that a job says which file it is about wherever it is looked at.
        let root = std::fs::canonicalize(directory)
            .map_err(|error| Failure::usage(format!("cannot read the directory {shown}: {error}")))?;
        if !root.is_dir() {
            return Err(Failure::usage(format!("{shown} is not a directory")));
        }
        let (sender, mut paths) = mpsc::channel(4 * BATCH);
        let walking = tokio::task::spawn_blocking(move || {
            walk(&root, |path| match sender.blocking_send(path) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            })
        });
        let first = paths.recv().await;
        let mut files = Self { first, paths, walking: Some(walking) };
        if files.first.is_none() {
            files.skipped().await?;
            return Err(Failure::usage(format!(
                "{shown} has no files for the demo: hidden entries, directories named `target`, links and special \
                 files are left out"
            )));
        }
        Ok(files)
    }

    /// Returns the files found meanwhile, at least one; `None` after the last.
    async fn next_batch(&mut self) -> Option<Vec<String>> {
        let mut batch: Vec<String> = self.first.take().into_iter().collect();
        let room = BATCH - batch.len();
        if batch.is_empty() {
            self.paths.recv_many(&mut batch, room).await;
        } else {
            while batch.len() < BATCH
                && let Ok(path) = self.paths.try_recv()
            {
                batch.push(path);
            }
        }
        (!batch.is_empty()).then_some(batch)
    }

    /// Waits for the end of the walk and returns what it left out.
    async fn skipped(&mut self) -> Result<Skipped, Failure> {
        let Some(walking) = self.walking.take() else { return Ok(Skipped::default()) };
        let walked = walking.await.map_err(|error| Failure::failed(format!("the walk failed: {error}")))?;
        walked.map_err(|error| Failure::usage(format!("cannot read the directory: {error}")))
    }
}
