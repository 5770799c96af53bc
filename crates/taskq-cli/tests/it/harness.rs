//! Running the binary.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use taskq::SchemaName;
use taskq::migrate::Migrator;
use taskq_testkit::{ChildProcess, Signal, TestDatabase, shared_server, wait_for};
use tokio_postgres::Client;

/// How long anything may take before a test gives up.
pub(crate) const WITHIN: Duration = Duration::from_mins(1);

/// The binary without any setting of the machine it runs on.
pub(crate) fn taskq() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taskq"));
    for variable in [
        "TASKQ_PG_DSN",
        "TASKQ_SCHEMA_NAME",
        "TASKQ_LOG",
        "TASKQ_DEADLINE",
        "TASKQ_EVENT_RETENTION_PERIOD",
        "TASKQ_EVENT_RETENTION_BATCH_SIZE",
        "COLUMNS",
    ] {
        command.env_remove(variable);
    }
    command
}

/// What a run of the binary left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Checks the exit code, and that what went wrong is one line with all of `parts`.
    pub(crate) fn refused(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        let lines: Vec<_> = self.stderr.lines().collect();
        let [line] = lines.as_slice() else { panic!("not one line: {self:?}") };
        assert!(line.starts_with("error: "), "{self:?}");
        for part in parts {
            assert!(line.contains(part), "{part:?} is not in {line:?}");
        }
    }

    /// Checks that it was done and said nothing on standard error; returns what it printed.
    pub(crate) fn done(&self) -> &str {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{self:?}");
        self.stdout.trim_end()
    }

    /// Reads what it printed as JSON, whatever its exit code.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Ran {
    ran(command.stdin(Stdio::null()).output().unwrap())
}

/// Runs a command to its end with an input.
pub(crate) fn run_with(command: &mut Command, input: &[u8]) -> Ran {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may refuse before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    ran(child.wait_with_output().unwrap())
}

fn ran(output: Output) -> Ran {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A migrated database for one test.
pub(crate) struct Database {
    pub(crate) database: TestDatabase,
    pub(crate) client: Client,
}

impl Database {
    pub(crate) async fn new() -> Self {
        let template = shared_server().await.template("cli", async |dsn| {
            Migrator::new(&dsn, SchemaName::default())?.up(None).await.map(drop)
        });
        let database = template.await.unwrap().database().await.unwrap();
        let client = database.connect().await.unwrap();
        Self { database, client }
    }

    /// The binary with this database.
    pub(crate) fn taskq<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let mut command = taskq();
        command.args(arguments).env("TASKQ_PG_DSN", self.database.dsn());
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run<const N: usize>(&self, arguments: [&str; N]) -> Ran {
        run(&mut self.taskq(arguments))
    }

    /// Enqueues a job through the SQL function, as any other client does; returns its id.
    pub(crate) async fn enqueue(&self, job: &Value) -> String {
        let row = self.client.query_one("SELECT id::text FROM taskq.enqueue($1)", &[job]).await.unwrap();
        row.get(0)
    }

    /// Returns everything about a job.
    pub(crate) fn job(&self, id: &str) -> Value {
        let shown = self.run(["job", "show", id, "--json"]);
        shown.done();
        shown.json()
    }

    /// Waits until a job has a status.
    pub(crate) async fn wait_for_status(&self, id: &str, status: &str) {
        let reached = async || {
            let query = "SELECT status::text FROM taskq.jobs WHERE id = $1::text::uuid";
            let row = self.client.query_one(query, &[&id]).await.unwrap();
            (row.get::<_, &str>(0) == status).then_some(())
        };
        wait_for(&format!("the job is {status}"), WITHIN, reached).await;
    }

    /// How many jobs there are.
    pub(crate) async fn jobs(&self) -> i64 {
        self.client.query_one("SELECT count(*) FROM taskq.jobs", &[]).await.unwrap().get(0)
    }

    /// Ends the lease of a worker process that is dead, as if it were long ago.
    pub(crate) async fn expire(&self, process: u32) {
        let expire =
            "UPDATE taskq.workers SET lease_expires_at = clock_timestamp() WHERE (info->>'pid')::bigint = $1";
        assert_eq!(self.client.execute(expire, &[&i64::from(process)]).await.unwrap(), 1);
    }

    /// Starts a worker and waits until it has registered.
    pub(crate) async fn worker(&self, arguments: &[&str]) -> ChildProcess {
        let worker = ChildProcess::spawn(self.taskq(["worker"]).args(arguments)).unwrap();
        worker.wait_for_line("the worker has registered", WITHIN).await;
        worker
    }
}

/// Stops a worker in good order and checks that it says so.
pub(crate) async fn stop(mut worker: ChildProcess) {
    worker.signal(Signal::TERM).unwrap();
    let status = worker.wait(WITHIN).await;
    assert_eq!(status.code(), Some(0), "{:?}", worker.stderr());
}
