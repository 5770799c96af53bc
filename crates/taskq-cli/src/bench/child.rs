//! A worker in a process of its own, so that its processor time and memory can be told from the benchmark's. This
//! binary again: it reads its orders and commands from standard input, one a line, and reports on standard output.

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskq::store::PostgresStore;
use taskq::{Client, ConnectOptions, Context, JobError, JobResult, Json, SchemaName, Worker, WorkerHandle};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::clock::{now_ns, own_cpu_ns, own_peak_bytes};
use crate::exit::{Exit, Failure, with_sources};
use crate::logging;

/// The word that makes this binary a benchmark's worker.
pub(super) const WORD: &str = "bench-worker";
/// The command that starts the work.
pub(super) const GO: &str = "go";

/// How often the worker's counts are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How many looks make one report while work is done.
const LOOKS_A_REPORT: u32 = 4;

/// What a worker process is to do; its first line of input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) dsn: String,
    pub(super) schema: String,
    pub(super) queue: String,
    pub(super) actors: Vec<String>,
    pub(super) slots: u32,
    pub(super) body: Body,
}

/// What the handler does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Body {
    /// Reads its payload and succeeds.
    Nothing,
    /// Says when it was started, and succeeds.
    Tell,
    /// Waits, and succeeds.
    Wait {
        /// How long.
        ms: u64,
    },
}

/// A line of a worker process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// It is connected and waits for the command.
    Ready {
        /// The processor time that this took.
        cpu_ns: u64,
    },
    /// What it had done at a moment; said when that changes.
    Progress(Done),
    /// A handler was started.
    Started {
        /// The number in the job's payload.
        n: u64,
        /// When.
        at_ns: u64,
    },
}

/// What a worker has done.
#[derive(Clone, Copy, Default, Debug, Serialize, Deserialize)]
pub(super) struct Done {
    /// When the last change was seen, by the monotonic clock.
    pub(super) at_ns: u64,
    /// Attempts recorded as succeeded.
    pub(super) succeeded: u64,
    /// The processor time of the process.
    pub(super) cpu_ns: u64,
    /// The peak of its resident memory.
    pub(super) peak_bytes: Option<u64>,
}

/// The payload of a benchmark's job.
#[derive(Serialize, Deserialize)]
pub(super) struct Payload {
    /// Its number.
    pub(super) n: u64,
}

/// Says whether the arguments ask for this role.
pub(crate) fn is_asked_for(arguments: &[OsString]) -> bool {
    matches!(arguments, [_, word] if word == WORD)
}

/// Plays the role to its end.
pub(crate) fn run() -> Result<Exit, Failure> {
    logging::start("error");
    // The same runtime as that of `taskq worker`.
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))?
        .block_on(serve())
}

async fn serve() -> Result<Exit, Failure> {
    let mut commands = commands();
    let Some(orders) = commands.recv().await else { return Ok(Exit::Done) };
    let orders: Orders = serde_json::from_str(&orders)
        .map_err(|error| Failure::usage(format!("orders that cannot be read: {error}")))?;
    let schema = SchemaName::new(&orders.schema).map_err(|error| Failure::usage(error.to_string()))?;
    let store = PostgresStore::connect(&orders.dsn, ConnectOptions::new().schema(schema)).await?;
    let (started, starts) = mpsc::unbounded_channel();
    let worker = worker(&Client::new(store), &orders, &started)?;
    say(Said::Ready { cpu_ns: own_cpu_ns() })?;
    if commands.recv().await.as_deref() != Some(GO) {
        return Ok(Exit::Done);
    }
    let worker = worker.start();
    let watched = watch(&worker, commands, starts).await;
    worker.stop();
    let report = worker.join().await.map_err(|error| Failure::failed(with_sources(&error)))?;
    watched?;
    if report.exit_code() == 0 {
        Ok(Exit::Done)
    } else {
        Err(Failure::failed("attempts were left unsettled"))
    }
}

fn worker(
    client: &Client,
    orders: &Orders,
    started: &mpsc::UnboundedSender<Said>,
) -> Result<Worker, Failure> {
    let mut builder = Worker::builder(client).queue(orders.queue.as_str(), orders.slots);
    for actor in &orders.actors {
        let (body, started) = (orders.body, started.clone());
        builder = builder
            .actor(actor.as_str(), move |payload: Json, _: Context| handle(payload, body, started.clone()));
    }
    builder.build().map_err(|error| Failure::usage(error.to_string()))
}

async fn handle(payload: Json, body: Body, started: mpsc::UnboundedSender<Said>) -> JobResult<Option<Json>> {
    let at_ns = now_ns();
    let Payload { n } = payload.parse().map_err(|error| JobError::fail(error.to_string()))?;
    match body {
        Body::Nothing => {}
        Body::Wait { ms } => tokio::time::sleep(Duration::from_millis(ms)).await,
        Body::Tell => {
            // Nobody listens any more once the worker stops.
            let _ = started.send(Said::Started { n, at_ns });
        }
    }
    Ok(None)
}

/// Reports until there is a command to stop, or the benchmark is gone.
async fn watch(
    worker: &WorkerHandle,
    mut commands: mpsc::UnboundedReceiver<String>,
    mut starts: mpsc::UnboundedReceiver<Said>,
) -> Result<(), Failure> {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut done, mut unsaid) = (Done::default(), 0);
    loop {
        tokio::select! {
            // Whatever it says, or that nobody is left to say anything.
            _ = commands.recv() => return Ok(()),
            Some(start) = starts.recv() => say(start)?,
            _ = looks.tick() => {
                let succeeded = worker.counts().succeeded;
                let changed = succeeded != done.succeeded;
                if changed {
                    done = Done { at_ns: now_ns(), succeeded, cpu_ns: own_cpu_ns(), ..done };
                    unsaid += 1;
                }
                // At once when the work pauses, which may be its end.
                if unsaid >= LOOKS_A_REPORT || unsaid > 0 && !changed {
                    done.peak_bytes = own_peak_bytes();
                    say(Said::Progress(done))?;
                    unsaid = 0;
                }
                if worker.is_finished() {
                    return Ok(());
                }
            }
        }
    }
}

/// Reads lines of standard input on a thread of its own, which no runtime waits for.
fn commands() -> mpsc::UnboundedReceiver<String> {
    let (send, receive) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}

fn say(what: Said) -> Result<(), Failure> {
    let line = serde_json::to_string(&what).map_err(|error| Failure::failed(error.to_string()))?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}
