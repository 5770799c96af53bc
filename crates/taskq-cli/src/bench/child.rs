//! A worker in a process of its own, so that its processor time and memory can be told from the benchmark's. This
//! binary again: it reads its orders and commands from standard input, one a line, and reports on standard output.

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskq::store::PostgresStore;
use taskq::{Client, ConnectOptions, ConnectionMode, Context, JobError, JobResult, Json, SchemaName, Worker};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::clock::{now_ns, own_cpu_ns, own_peak_bytes};
use super::job::Numbered;
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
    pub(super) way: Way,
    pub(super) queue: String,
    pub(super) actors: Vec<String>,
    pub(super) slots: u32,
    pub(super) body: Body,
    /// Run this many bodies in as many bare tasks as there are slots, without taskq.
    pub(super) bare: Option<u64>,
}

/// How the worker uses its connections: a [`ConnectionMode`] that can be written down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Way {
    /// It finds out.
    Auto,
    /// As sessions.
    Direct,
    /// As if a pooler were in between.
    Pooled,
}

impl From<ConnectionMode> for Way {
    fn from(mode: ConnectionMode) -> Self {
        match mode {
            ConnectionMode::Direct => Self::Direct,
            ConnectionMode::Pooled => Self::Pooled,
            _ => Self::Auto,
        }
    }
}

impl From<Way> for ConnectionMode {
    fn from(way: Way) -> Self {
        match way {
            Way::Auto => Self::Auto,
            Way::Direct => Self::Direct,
            Way::Pooled => Self::Pooled,
        }
    }
}

/// What the handler does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Body {
    /// Reads its payload and succeeds.
    Nothing,
    /// Succeeds without a look at its payload, as a handler without a type may.
    Untyped,
    /// Succeeds, as a handler of a job type.
    Typed,
    /// Says when it was started, and succeeds.
    Tell,
    /// Waits, and succeeds.
    Wait {
        /// How long.
        ms: u64,
    },
}

impl Body {
    async fn run(self) {
        if let Self::Wait { ms } = self {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
    }
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
    if let Some(bodies) = orders.bare {
        return run_bare(&orders, bodies, commands).await;
    }
    let schema = SchemaName::new(&orders.schema).map_err(|error| Failure::usage(error.to_string()))?;
    let options = ConnectOptions::new().schema(schema).mode(orders.way.into());
    let store = PostgresStore::connect(&orders.dsn, options).await?;
    let (started, starts) = mpsc::unbounded_channel();
    let worker = worker(&Client::new(store), &orders, &started)?;
    if !told_to_go(&mut commands).await? {
        return Ok(Exit::Done);
    }
    let worker = worker.start();
    let watched = watch(|| worker.counts().succeeded, || worker.is_finished(), commands, starts).await;
    worker.stop();
    let report = worker.join().await.map_err(|error| Failure::failed(with_sources(&error)))?;
    watched?;
    if report.exit_code() == 0 {
        Ok(Exit::Done)
    } else {
        Err(Failure::failed("attempts were left unsettled"))
    }
}

/// Runs bodies in tasks that do nothing else.
async fn run_bare(
    orders: &Orders,
    bodies: u64,
    mut commands: mpsc::UnboundedReceiver<String>,
) -> Result<Exit, Failure> {
    if !told_to_go(&mut commands).await? {
        return Ok(Exit::Done);
    }
    let (next, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    for _ in 0..orders.slots {
        let (next, ended, body) = (Arc::clone(&next), Arc::clone(&ended), orders.body);
        tokio::spawn(async move {
            while next.fetch_add(1, Ordering::Relaxed) < bodies {
                body.run().await;
                ended.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let (_started, starts) = mpsc::unbounded_channel();
    watch(|| ended.load(Ordering::Relaxed), || false, commands, starts).await?;
    Ok(Exit::Done)
}

async fn told_to_go(commands: &mut mpsc::UnboundedReceiver<String>) -> Result<bool, Failure> {
    say(Said::Ready { cpu_ns: own_cpu_ns() })?;
    Ok(commands.recv().await.as_deref() == Some(GO))
}

fn worker(
    client: &Client,
    orders: &Orders,
    started: &mpsc::UnboundedSender<Said>,
) -> Result<Worker, Failure> {
    let mut builder = Worker::builder(client).queue(orders.queue.as_str(), orders.slots);
    for actor in &orders.actors {
        let (body, started) = (orders.body, started.clone());
        builder = match body {
            Body::Untyped => builder.actor(actor.as_str(), async |_: Json, _: Context| Ok(None)),
            Body::Typed => builder.handle::<Numbered>(async |_: Numbered, _: Context| Ok(())),
            _ => builder.actor(actor.as_str(), move |payload: Json, _: Context| {
                handle(payload, body, started.clone())
            }),
        };
    }
    builder.build().map_err(|error| Failure::usage(error.to_string()))
}

async fn handle(payload: Json, body: Body, started: mpsc::UnboundedSender<Said>) -> JobResult<Option<Json>> {
    let at_ns = now_ns();
    let Numbered { n } = payload.parse().map_err(|error| JobError::fail(error.to_string()))?;
    if body == Body::Tell {
        // Nobody listens any more once the worker stops.
        let _ = started.send(Said::Started { n, at_ns });
    }
    body.run().await;
    Ok(None)
}

/// Reports until there is a command to stop, or the benchmark is gone.
async fn watch(
    ended: impl Fn() -> u64,
    is_over: impl Fn() -> bool,
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
                let succeeded = ended();
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
                if is_over() {
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
