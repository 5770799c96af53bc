//! `taskq worker` as a process: settings, signals, what it leaves.

use serde_json::json;
use taskq_testkit::{ChildProcess, Signal, wait_until};

use crate::harness::{Database, WITHIN, stop};

#[tokio::test]
async fn jobs_from_sql_run_with_a_program() {
    let db = Database::new().await;
    let before = db.enqueue(&json!({"actor": "sum", "queue": "files", "payload": "abc"})).await;
    let worker = db.worker(&["--queue", "files", "--actor", "sum=sha256sum"]).await;
    let after = db.enqueue(&json!({"actor": "sum", "queue": "files", "payload": "abc"})).await;
    for id in [before, after] {
        db.wait_for_status(&id, "succeeded").await;
        let job = db.job(&id);
        // The digest of the five bytes "abc" with its quotes.
        let digest = "6cc43f858fbb763301637b5af970e2a46b46f461f27e5a0f41e009c59b827b25";
        assert_eq!(job["result"], format!("{digest}  -\n"));
        assert_eq!(job["attempts"][0]["outcome"], "succeeded");
        assert!(db.run(["job", "show", &id]).done().contains(digest));
    }
    stop(worker).await;
    let stats = db.run(["stats", "--json"]).json();
    assert_eq!(stats["workers"], json!([]), "a session that has ended leaves no row");
}

#[tokio::test]
async fn a_file_says_what_is_served() {
    let db = Database::new().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("taskq.toml");
    let text = format!(
        "dsn = '{}'\nslots = 3\n[queues.a]\n[queues.b]\nslots = 1\n\
         [actors.later]\ncommand = ['sh', '-c', 'exit 75']\nsnooze = '1h'\n[actors.echo]\ncommand = 'cat'\n",
        db.database.dsn()
    );
    std::fs::write(&file, text).unwrap();
    let mut command = crate::harness::taskq();
    command.arg("worker").arg("--config").arg(&file).args(["--log-level", "taskq_core=info"]);
    let worker = ChildProcess::spawn(&mut command).unwrap();
    worker.wait_for_line("the worker has registered", WITHIN).await;

    let echo = db.enqueue(&json!({"actor": "echo", "queue": "a", "payload": 1})).await;
    let later = db.enqueue(&json!({"actor": "later", "queue": "b", "payload": 1})).await;
    db.wait_for_status(&echo, "succeeded").await;
    db.wait_for_status(&later, "scheduled").await;
    let job = db.job(&later);
    assert_eq!((&job["attempt"], &job["attempts"][0]["outcome"]), (&json!(0), &json!("snoozed")));
    let delayed: bool = {
        let query =
            "SELECT scheduled_at > now() + interval '50 minutes' FROM taskq.jobs WHERE id = $1::text::uuid";
        db.client.query_one(query, &[&later]).await.unwrap().get(0)
    };
    assert!(delayed, "the file's delay counts");
    let stats = db.run(["stats", "--json"]).json();
    assert_eq!(stats["workers"][0]["queues"], json!(["a", "b"]));
    stop(worker).await;
}

#[tokio::test]
async fn the_first_signal_waits_and_the_second_releases() {
    let db = Database::new().await;
    let mut worker = db.worker(&["--queue", "default", "--actor", "wait=sleep 1000"]).await;
    let id = db.enqueue(&json!({"actor": "wait", "payload": null})).await;
    db.wait_for_status(&id, "running").await;
    worker.signal(Signal::TERM).unwrap();
    worker.wait_for_line("asked to end", WITHIN).await;
    worker.signal(Signal::INT).unwrap();
    assert_eq!(worker.wait(WITHIN).await.code(), Some(0), "{:?}", worker.stderr());
    let job = db.job(&id);
    assert_eq!((&job["status"], &job["attempt"]), (&json!("pending"), &json!(0)));
    assert_eq!(job["attempts"][0]["outcome"], "released");
}

#[tokio::test]
async fn the_first_signal_lets_attempts_end() {
    let db = Database::new().await;
    let directory = tempfile::tempdir().unwrap();
    let (begun, go) = (directory.path().join("begun"), directory.path().join("go"));
    let wait =
        format!("touch {}; until [ -e {} ]; do sleep 0.05; done; echo 7", begun.display(), go.display());
    let actor = format!("wait=sh -c '{wait}'");
    let mut worker = db.worker(&["--queue", "default", "--actor", &actor]).await;
    let id = db.enqueue(&json!({"actor": "wait", "payload": null})).await;
    // A job that has only been claimed would go back.
    wait_until("the program has begun", WITHIN, async || begun.exists()).await;
    worker.signal(Signal::INT).unwrap();
    worker.wait_for_line("asked to end", WITHIN).await;
    std::fs::write(&go, "").unwrap();
    assert_eq!(worker.wait(WITHIN).await.code(), Some(0), "{:?}", worker.stderr());
    let job = db.job(&id);
    assert_eq!((&job["status"], &job["result"]), (&json!("succeeded"), &json!(7)));
}
