//! Workers in other languages, which know of taskq what `docs/protocol.md` says: at work beside a Rust one, connected to the
//! server itself and through a pooler in transaction mode. The tests look and act past the pooler.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use taskq_testkit::{
    ChildProcess, PgBouncer, PgSource, PoolMode, Signal, psycopg, shared_pgbouncer, wait_for, wait_until,
};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::harness::{Database, WITHIN, stop};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// How the foreign workers reach the server.
#[derive(Clone, Copy)]
enum Route {
    Direct,
    /// Through `pgbouncer` in transaction mode, with two sessions for all of them.
    Pooled,
}

impl Route {
    async fn dsn(self, db: &Database) -> String {
        match self {
            Self::Direct => db.database.dsn().to_owned(),
            Self::Pooled => shared_pgbouncer().await.dsn_of(db.database.name()),
        }
    }
}

/// Makes each scenario a test on each route.
macro_rules! on_each_route {
    ($($scenario:ident),* $(,)?) => {
        mod direct {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario(super::Route::Direct).await;
            })*
        }

        mod pooled {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario(super::Route::Pooled).await;
            })*
        }
    };
}

on_each_route!(
    workers_in_three_languages_share_a_queue,
    a_foreign_failure_is_tried_again_or_final_as_it_says,
    foreign_attempts_stop_when_they_are_cancelled,
    the_jobs_of_a_killed_foreign_worker_are_rescued,
    a_foreign_worker_whose_lease_is_lost_starts_a_new_session,
);

fn example(name: &str) -> PathBuf {
    Path::new(REPOSITORY).join("examples/foreign").join(name)
}

/// The Python worker on the queue `default`; its actors are `python.add` and `python.wait`.
fn python(dsn: &str) -> ChildProcess {
    let mut command = Command::new("python3");
    command.arg(example("worker.py")).arg("default");
    command.env("PYTHONPATH", psycopg().unwrap()).env("PYTHONDONTWRITEBYTECODE", "1");
    ChildProcess::spawn(command.env("TASKQ_PG_DSN", dsn)).unwrap()
}

/// The worker in bash and psql on the queue `default`.
fn bash(dsn: &str, actor: &str, command: &[&str]) -> ChildProcess {
    let programs = PgSource::from_env().unwrap().resolve().unwrap().bin_dir().to_owned();
    let path = std::env::var("PATH").unwrap();
    let mut worker = Command::new("bash");
    worker.arg(example("worker.sh")).args(["default", actor]).args(command);
    worker.env("PATH", format!("{}:{path}", programs.display())).env("TASKQ_PG_DSN", dsn);
    ChildProcess::spawn(&mut worker).unwrap()
}

async fn workers(db: &Database, count: i64) {
    wait_until("the workers have registered", WITHIN, async || {
        let query = "SELECT count(*) FROM taskq.workers WHERE state = 'active'";
        db.client.query_one(query, &[]).await.unwrap().get::<_, i64>(0) == count
    })
    .await;
}

/// Waits until a job has ended; returns what is known of it.
async fn ended(db: &Database, id: &str) -> Value {
    wait_for("the job has ended", WITHIN, async || {
        let query = "SELECT finished_at IS NOT NULL FROM taskq.jobs WHERE id = $1::text::uuid";
        let ended = db.client.query_one(query, &[&id]).await.unwrap().get::<_, bool>(0);
        ended.then(|| db.job(id))
    })
    .await
}

/// How many processes run `command`, given as the kernel shows it.
fn processes(command: &[u8]) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .filter(|line| line == command)
        .count()
}

async fn workers_in_three_languages_share_a_queue(route: Route) {
    let db = Database::new().await;
    let dsn = route.dsn(&db).await;
    let rust = db.worker(&["--queue", "default", "--actor", "rust.cat=cat"]).await;
    let mut foreign = [python(&dsn), bash(&dsn, "bash.cat", &["cat"])];
    workers(&db, 3).await;
    let mut jobs = Vec::new();
    for n in 0..5 {
        jobs.push((
            db.enqueue(&json!({"actor": "python.add", "payload": {"a": n, "b": 2}})).await,
            json!(n + 2),
        ));
        jobs.push((db.enqueue(&json!({"actor": "rust.cat", "payload": n})).await, json!(n)));
        jobs.push((db.enqueue(&json!({"actor": "bash.cat", "payload": n})).await, json!(n.to_string())));
    }
    for (id, result) in jobs {
        let job = ended(&db, &id).await;
        assert_eq!(
            (&job["status"], &job["result"], &job["attempt"]),
            (&json!("succeeded"), &result, &json!(1)),
            "{job}"
        );
    }
    for worker in &mut foreign {
        worker.signal(Signal::TERM).unwrap();
        assert!(worker.wait(WITHIN).await.success(), "{:?}", worker.stderr());
    }
    workers(&db, 1).await;
    stop(rust).await;
}

async fn a_foreign_failure_is_tried_again_or_final_as_it_says(route: Route) {
    let db = Database::new().await;
    let dsn = route.dsn(&db).await;
    let _python = python(&dsn);
    let _bash = bash(&dsn, "bash.fail", &["sh", "-c", "echo no use >&2; exit 65"]);
    let raised = db.enqueue(&json!({"actor": "python.add", "payload": {}, "max_attempts": 1})).await;
    let last = db.enqueue(&json!({"actor": "bash.fail", "payload": {}})).await;
    let job = ended(&db, &raised).await;
    assert_eq!((&job["status"], &job["error"]["class"]), (&json!("failed"), &json!("KeyError")), "{job}");
    let job = ended(&db, &last).await;
    assert_eq!((&job["status"], &job["attempt"]), (&json!("failed"), &json!(1)), "{job}");
    assert_eq!(job["error"], json!({"class": "exit 65", "message": "no use"}));
}

async fn foreign_attempts_stop_when_they_are_cancelled(route: Route) {
    let db = Database::new().await;
    let dsn = route.dsn(&db).await;
    let _python = python(&dsn);
    // Processes are counted on the whole machine: no other test may run the same command.
    let seconds = (86_400 + 2 * u64::from(std::process::id()) + route as u64).to_string();
    let _bash = bash(&dsn, "bash.sleep", &["sleep", &seconds]);
    let asked = [
        db.enqueue(&json!({"actor": "python.wait", "payload": {"seconds": 86_400}})).await,
        db.enqueue(&json!({"actor": "bash.sleep", "payload": null})).await,
    ];
    for id in &asked {
        db.wait_for_status(id, "running").await;
        db.run(["job", "cancel", id]);
    }
    for id in &asked {
        assert_eq!(ended(&db, id).await["status"], json!("cancelled"));
    }
    assert_eq!(processes(format!("sleep\0{seconds}\0").as_bytes()), 0, "the body has stopped");
}

async fn the_jobs_of_a_killed_foreign_worker_are_rescued(route: Route) {
    let db = Database::new().await;
    let dsn = route.dsn(&db).await;
    let mut victim = python(&dsn);
    let id = db.enqueue(&json!({"actor": "python.wait", "payload": {"seconds": 86_400}})).await;
    db.wait_for_status(&id, "running").await;
    victim.kill().await.unwrap();
    // Time passes faster for the lease than for the test.
    db.client.execute("UPDATE taskq.workers SET lease_expires_at = now()", &[]).await.unwrap();
    let rust = db.worker(&["--queue", "default", "--actor", "python.wait=cat"]).await;
    let job = ended(&db, &id).await;
    assert_eq!((&job["status"], &job["attempt"]), (&json!("succeeded"), &json!(2)), "{job}");
    assert_eq!(job["attempts"][0]["outcome"], json!("crashed"));
    stop(rust).await;
}

async fn a_foreign_worker_whose_lease_is_lost_starts_a_new_session(route: Route) {
    let db = Database::new().await;
    let dsn = route.dsn(&db).await;
    let _workers = [python(&dsn), bash(&dsn, "bash.cat", &["cat"])];
    workers(&db, 2).await;
    db.client
        .execute("UPDATE taskq.workers SET state = 'lost', lease_expires_at = now()", &[])
        .await
        .unwrap();
    workers(&db, 2).await;
    let jobs = [
        db.enqueue(&json!({"actor": "python.add", "payload": {"a": 1, "b": 2}})).await,
        db.enqueue(&json!({"actor": "bash.cat", "payload": 3})).await,
    ];
    for id in jobs {
        assert_eq!(ended(&db, &id).await["status"], json!("succeeded"));
    }
}

#[tokio::test]
async fn pooled_foreign_workers_leave_nothing_on_the_session() {
    let db = Database::new().await;
    let server = db.database.cluster().clone();
    let starting = move || PgBouncer::start(&server, PoolMode::Transaction, 1, &[]).unwrap();
    let pooler = tokio::task::spawn_blocking(starting).await.unwrap();
    let dsn = pooler.dsn_of(db.database.name());
    let (client, connection) = tokio_postgres::connect(&dsn, NoTls).await.unwrap();
    tokio::spawn(connection);
    let _workers = [python(&dsn), bash(&dsn, "bash.cat", &["cat"])];
    // One claim each, which is more than it takes until psycopg prepares a statement unless it is told not to.
    for n in 0..8 {
        let id = db.enqueue(&json!({"actor": "python.add", "payload": {"a": n, "b": 2}})).await;
        db.wait_for_status(&id, "succeeded").await;
    }
    let id = db.enqueue(&json!({"actor": "bash.cat", "payload": 1})).await;
    db.wait_for_status(&id, "succeeded").await;
    // Asked of the one session that all of them share.
    let left = "SELECT (SELECT count(*) FROM pg_prepared_statements),
            (SELECT count(*) FROM pg_listening_channels()),
            (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'),
            (SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema())";
    let answer = client.simple_query(left).await.unwrap();
    let row = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let row = row.unwrap();
    let left: Vec<_> = (0..row.len()).map(|column| row.get(column).unwrap()).collect();
    assert_eq!(left, ["0", "0", "0", "0"], "statements, channels, locks, tables");
    wait_until("the server has the pooler's session and the test's", WITHIN, async || {
        let query = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND backend_type = 'client backend'";
        db.client.query_one(query, &[]).await.unwrap().get::<_, i64>(0) == 2
    })
    .await;
}

#[test]
fn the_examples_stay_within_80_lines() {
    for name in ["worker.py", "worker.sh"] {
        let lines = std::fs::read_to_string(example(name)).unwrap().lines().count();
        assert!(lines <= 80, "{name} has {lines}");
    }
}
