//! Worker processes: this test binary again, told by its environment what to be.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskq::prelude::*;
use taskq::{RetryPolicy, ShutdownReport};
use taskq_testkit::invariants::ExecutionLog;
use taskq_testkit::{ChildProcess, Signal};

/// The environment variable that makes a process a member of the crew.
const VARIABLE: &str = "TASKQ_CREW_MEMBER";
/// How long a process may take for what takes moments on an idle machine.
pub(crate) const WITHIN: Duration = Duration::from_mins(1);
/// A job that was lost often shall not wait long.
pub(crate) const RETRY: RetryPolicy = RetryPolicy::fixed(Duration::from_millis(200));

/// What the workers of the crew do. The output is the epoch of the attempt that succeeded.
#[derive(Clone, Serialize, Deserialize, Job)]
#[job(actor = "task", output = i64)]
pub(crate) struct Task(pub(crate) Deed);

/// One way to spend an attempt.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum Deed {
    /// Sleeps, and is dropped when it must stop.
    Sleep(u64),
    /// Kills its process after so many milliseconds.
    Abort(u64),
    /// Holds its thread for so many milliseconds.
    Block(u64),
    /// Holds its thread until the file exists.
    Gate(PathBuf),
    /// Holds its thread for ever, but only in its first epoch.
    Endless,
    /// Fails in its first epoch.
    FailOnce,
    /// Waits for ever, but only in its first epoch, and is dropped when it must stop.
    Hang,
}

/// What a worker process is.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) dsn: String,
    /// Where it keeps the execution log.
    pub(crate) log: PathBuf,
    pub(crate) slots: u32,
    pub(crate) lease_ms: u64,
    pub(crate) grace_ms: u64,
    pub(crate) forced_ms: u64,
    /// Threads for its handlers.
    pub(crate) threads: usize,
    /// What it logs.
    pub(crate) level: String,
}

impl Member {
    pub(crate) fn new(dsn: &str, log: impl Into<PathBuf>, lease: Duration) -> Self {
        Self {
            dsn: dsn.to_owned(),
            log: log.into(),
            slots: 20,
            lease_ms: lease.as_millis().try_into().unwrap(),
            grace_ms: 10_000,
            forced_ms: 5_000,
            threads: 2,
            level: "info".to_owned(),
        }
    }

    /// Starts the process; it need not have registered yet.
    pub(crate) fn spawn(&self) -> Mate {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let (_, module) = module_path!().split_once("::").unwrap();
        command.args(["--exact", &format!("{module}::member"), "--ignored", "--nocapture"]);
        command.env(VARIABLE, serde_json::to_string(self).unwrap()).env_remove("RUST_LOG");
        Mate { process: ChildProcess::spawn(&mut command).unwrap() }
    }

    /// Starts the process and waits until it has a session.
    pub(crate) async fn start(&self) -> Mate {
        let mate = self.spawn();
        mate.process.wait_for_line("the worker has registered", WITHIN).await;
        mate
    }
}

/// A running member.
pub(crate) struct Mate {
    pub(crate) process: ChildProcess,
}

/// How a member ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    line: String,
    pub(crate) output: Vec<String>,
}

impl Mate {
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Lets it shut down and waits for its end.
    pub(crate) async fn stop(mut self) -> Ended {
        self.process.signal(Signal::TERM).unwrap();
        self.ended().await
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> Ended {
        let code = self.process.wait(WITHIN).await.code();
        let output = self.process.stdout();
        let line = output.iter().find(|line| line.starts_with("report ")).cloned().unwrap_or_default();
        Ended { code, line, output }
    }
}

impl Ended {
    /// A number of its report.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let value = self.line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let value = value.and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in the report {:?}: {:#?}", self.line, self.output))
    }
}

/// Not a test: what the processes run.
#[test]
#[ignore = "runs as the child process of other tests"]
fn member() {
    let Ok(text) = std::env::var(VARIABLE) else { return };
    let member: Member = serde_json::from_str(&text).unwrap();
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(&member.level))
        .with_ansi(false)
        .with_writer(std::io::stdout)
        .init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(member.threads).enable_all().build();
    // Bound, since dropping it would wait for handlers that never end.
    let runtime = runtime.unwrap();
    let report = runtime.block_on(run(&member));
    println!(
        "\nreport succeeded={} failed={} released={} abandoned={} stale={} unsettled={} stuck={}",
        report.succeeded,
        report.failed,
        report.released,
        report.abandoned,
        report.stale,
        report.unsettled,
        report.stuck
    );
    // At once: the runtime would wait for handlers that never end.
    std::process::exit(report.exit_code());
}

async fn run(member: &Member) -> ShutdownReport {
    let taskq = TaskQ::connect(&member.dsn).await.unwrap();
    let log = ExecutionLog::open(&member.log).unwrap();
    let handler = move |task: Task, ctx: Context| {
        let log = log.clone();
        async move {
            let running = log.begin(ctx.id().0, ctx.epoch().0, ctx.attempt())?;
            let epoch = ctx.epoch().0;
            act(task.0, epoch).await?;
            drop(running);
            Ok(epoch)
        }
    };
    let worker = Worker::builder(&taskq)
        .queue("default", member.slots)
        .handle::<Task>(handler)
        .lease(Duration::from_millis(member.lease_ms))
        .shutdown_grace(Duration::from_millis(member.grace_ms))
        .forced_grace(Duration::from_millis(member.forced_ms));
    worker.build().unwrap().run_until_signal().await.unwrap()
}

async fn act(deed: Deed, epoch: i64) -> JobResult<()> {
    match deed {
        Deed::Sleep(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
        Deed::Abort(ms) => {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            std::process::abort();
        }
        Deed::Block(ms) => std::thread::sleep(Duration::from_millis(ms)),
        Deed::Gate(file) => {
            while !file.exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Deed::Endless if epoch == 1 => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
        Deed::Hang if epoch == 1 => std::future::pending().await,
        Deed::FailOnce if epoch == 1 => return Err("it fails at first".into()),
        Deed::Endless | Deed::Hang | Deed::FailOnce => {}
    }
    Ok(())
}
