//! Workers in other languages, which know of taskq what `docs/protocol.md` says: at work beside a Rust one.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use taskq_testkit::{ChildProcess, PgSource, Signal, psycopg, wait_for, wait_until};

use crate::harness::{Database, WITHIN, stop};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn example(name: &str) -> PathBuf {
    Path::new(REPOSITORY).join("examples/foreign").join(name)
}

/// The Python worker on the queue `default`; its actors are `python.add` and `python.wait`.
fn python(db: &Database) -> ChildProcess {
    let mut command = Command::new("python3");
    command.arg(example("worker.py")).arg("default");
    command.env("PYTHONPATH", psycopg().unwrap()).env("PYTHONDONTWRITEBYTECODE", "1");
    ChildProcess::spawn(command.env("TASKQ_PG_DSN", db.database.dsn())).unwrap()
}

/// The worker in bash and psql on the queue `default`.
fn bash(db: &Database, actor: &str, command: &[&str]) -> ChildProcess {
    let programs = PgSource::from_env().unwrap().resolve().unwrap().bin_dir().to_owned();
    let path = std::env::var("PATH").unwrap();
    let mut worker = Command::new("bash");
    worker.arg(example("worker.sh")).args(["default", actor]).args(command);
    worker.env("PATH", format!("{}:{path}", programs.display())).env("TASKQ_PG_DSN", db.database.dsn());
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

#[tokio::test]
async fn workers_in_three_languages_share_a_queue() {
    let db = Database::new().await;
    let rust = db.worker(&["--queue", "default", "--actor", "rust.cat=cat"]).await;
    let mut foreign = [python(&db), bash(&db, "bash.cat", &["cat"])];
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

#[tokio::test]
async fn a_foreign_failure_is_tried_again_or_final_as_it_says() {
    let db = Database::new().await;
    let _python = python(&db);
    let _bash = bash(&db, "bash.fail", &["sh", "-c", "echo no use >&2; exit 65"]);
    let raised = db.enqueue(&json!({"actor": "python.add", "payload": {}, "max_attempts": 1})).await;
    let last = db.enqueue(&json!({"actor": "bash.fail", "payload": {}})).await;
    let job = ended(&db, &raised).await;
    assert_eq!((&job["status"], &job["error"]["class"]), (&json!("failed"), &json!("KeyError")), "{job}");
    let job = ended(&db, &last).await;
    assert_eq!((&job["status"], &job["attempt"]), (&json!("failed"), &json!(1)), "{job}");
    assert_eq!(job["error"], json!({"class": "exit 65", "message": "no use"}));
}

#[tokio::test]
async fn foreign_attempts_stop_when_they_are_cancelled() {
    let db = Database::new().await;
    let _python = python(&db);
    let _bash = bash(&db, "bash.sleep", &["sleep", "86399"]);
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
    assert_eq!(processes(b"sleep\086399\0"), 0, "the body has stopped");
}

#[tokio::test]
async fn the_jobs_of_a_killed_foreign_worker_are_rescued() {
    let db = Database::new().await;
    let mut victim = python(&db);
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

#[tokio::test]
async fn a_foreign_worker_whose_lease_is_lost_starts_a_new_session() {
    let db = Database::new().await;
    let _workers = [python(&db), bash(&db, "bash.cat", &["cat"])];
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
