//! `taskq enqueue`, `job`, `queue` and `stats`.

use serde_json::json;

use crate::harness::{Database, run_with, stop};

const NOWHERE: &str = "0196f1f4-0000-7000-8000-000000000000";

#[tokio::test]
async fn a_job_is_enqueued_and_shown_as_it_was_given() {
    let db = Database::new().await;
    let id = "0196f1f4-0000-7000-8000-000000000001";
    let enqueue = [
        "enqueue",
        "mail.welcome",
        "-",
        "--queue",
        "mail",
        "--priority=-3",
        "--tag",
        "a",
        "--tag",
        "b c",
        "--at",
        "2030-01-31T08:00+02:00",
        "--deadline",
        "2030-02-01T00:00Z",
        "--max-attempts",
        "7",
        "--start-to-close",
        "90s",
        "--id",
        id,
        "--json",
    ];
    let ran = run_with(&mut db.taskq(enqueue), b"{\"user\": [1, 2]}\n");
    assert_eq!(ran.json(), json!({"id": id, "outcome": "created", "status": "scheduled"}));

    let job = db.job(id);
    for (field, value) in [
        ("actor", json!("mail.welcome")),
        ("queue", json!("mail")),
        ("status", json!("scheduled")),
        ("priority", json!(-3)),
        ("tags", json!(["a", "b c"])),
        ("scheduled_at", json!("2030-01-31T06:00:00Z")),
        ("schedule_to_close", json!("2030-02-01T00:00:00Z")),
        ("max_attempts", json!(7)),
        ("start_to_close", json!(90.0)),
        ("payload", json!({"user": [1, 2]})),
        ("attempts", json!([])),
        ("served", json!(null)),
    ] {
        assert_eq!(job[field], value, "{field}");
    }
    let shown = db.run(["job", "show", id]);
    for part in ["mail.welcome", "0 of 7", "1m 30s", "a, b c", "2030-02-01 00:00:00Z", "\"user\""] {
        assert!(shown.done().contains(part), "{part}: {}", shown.stdout);
    }
}

#[tokio::test]
async fn an_id_that_is_taken_writes_nothing_and_says_so() {
    let db = Database::new().await;
    let id = db.run(["enqueue", "a", "1"]).done().to_owned();
    let again = db.run(["enqueue", "other", "2", "--id", &id]);
    assert_eq!((again.code, again.stdout.trim()), (Some(0), id.as_str()));
    assert!(again.stderr.starts_with("warning: ") && again.stderr.contains("pending"), "{again:?}");
    let again = db.run(["enqueue", "other", "2", "--id", &id, "--json"]);
    assert_eq!(again.json()["outcome"], "existing");
    assert_eq!(db.job(&id)["payload"], 1);
    assert_eq!(db.jobs().await, 1);
}

#[tokio::test]
async fn a_pending_job_that_nobody_serves_says_so() {
    let db = Database::new().await;
    let id = db.run(["enqueue", "hash", "--queue", "files"]).done().to_owned();
    assert_eq!(db.job(&id)["served"], false);
    assert!(db.run(["job", "show", &id]).done().contains("No live worker serves the actor `hash`"));
    let stats = db.run(["stats", "--json"]).json();
    assert_eq!(stats["unserved"][0]["actor"], "hash");
    assert!(db.run(["stats"]).done().contains("no live worker serves"));
}

#[tokio::test]
async fn what_is_not_there_is_exit_code_3() {
    let db = Database::new().await;
    db.run(["job", "show", NOWHERE]).refused(3, &[NOWHERE]);
    db.run(["job", "wait", NOWHERE]).refused(3, &[NOWHERE]);
    let list = db.run(["job", "list"]);
    assert_eq!((list.code, list.stdout.as_str()), (Some(0), ""));
    assert_eq!(db.run(["job", "list", "--json"]).json(), json!([]));
}

#[tokio::test]
async fn waiting_ends_with_the_job_or_the_time() {
    let db = Database::new().await;
    let waiting = db.run(["enqueue", "nobody"]).done().to_owned();
    db.run(["job", "wait", &waiting, "--timeout", "100ms"]).refused(1, &["has not ended within 100ms"]);

    let worker = db.worker(&[
        "--queue",
        "default",
        "--actor",
        "echo=cat",
        "--actor",
        "bad=sh -c 'echo no >&2; exit 65'",
    ]);
    let worker = worker.await;
    let good = db.run(["enqueue", "echo", r#"{"a": 1}"#]).done().to_owned();
    assert_eq!(db.run(["job", "wait", &good]).done(), r#"{"a": 1}"#);
    let ended = db.run(["job", "wait", &good, "--timeout", "1m", "--json"]).json();
    assert_eq!(ended, json!({"id": good, "status": "succeeded", "result": {"a": 1}, "error": null}));

    let bad = db.run(["enqueue", "bad"]).done().to_owned();
    db.run(["job", "wait", &bad]).refused(1, &["ended as failed: no"]);
    let ended = db.run(["job", "wait", &bad, "--json"]);
    ended.refused(1, &["failed"]);
    assert_eq!(ended.json()["error"], json!({"class": "exit_65", "message": "no"}));
    stop(worker).await;
}

#[tokio::test]
async fn lists_are_narrowed_and_paged() {
    let db = Database::new().await;
    let mut ids = Vec::new();
    for (actor, queue) in [("a", "q"), ("b", "q"), ("a", "r"), ("a", "q")] {
        ids.push(db.run(["enqueue", actor, "--queue", queue]).done().to_owned());
    }
    let listed = |arguments: &[&str]| {
        let jobs = crate::harness::run(db.taskq(["job", "list", "--json"]).args(arguments)).json();
        let ids: Vec<_> =
            jobs.as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect();
        ids
    };
    let newest_first: Vec<_> = ids.iter().rev().cloned().collect();
    assert_eq!(listed(&[]), newest_first);
    assert_eq!(listed(&["--queue", "q", "--actor", "a"]), [ids[3].clone(), ids[0].clone()]);
    assert_eq!(listed(&["--limit", "2"]), newest_first[..2]);
    assert_eq!(listed(&["--before", &ids[2]]), newest_first[2..]);
    assert_eq!(listed(&["--status", "pending"]).len(), 4);
    assert_eq!(listed(&["--status", "failed"]).len(), 0);

    let page = db.run(["job", "list", "--limit", "2"]);
    assert!(page.stderr.contains(&format!("--before {}", ids[2])), "{page:?}");
    assert!(page.stdout.lines().count() == 3 && page.stdout.contains(&ids[3]), "{page:?}");
}

#[tokio::test]
async fn queues_and_statistics_count_what_is_there() {
    let db = Database::new().await;
    db.run(["enqueue", "a", "--queue", "later", "--in", "1h"]).done();
    for _ in 0..2 {
        db.run(["enqueue", "a", "--queue", "now"]).done();
    }
    let queues = db.run(["queue", "list", "--json"]).json();
    let count = |queue: usize, field: &str| queues[queue][field]["value"].as_u64();
    assert_eq!(
        (&queues[0]["queue"], count(0, "scheduled"), count(0, "pending")),
        (&json!("later"), Some(1), Some(0))
    );
    assert_eq!(
        (&queues[1]["queue"], count(1, "scheduled"), count(1, "pending")),
        (&json!("now"), Some(0), Some(2))
    );
    assert_eq!(queues[0]["oldest_pending_s"], json!(null));
    assert!(queues[1]["oldest_pending_s"].as_f64().is_some_and(|seconds| seconds >= 0.0));
    assert!(db.run(["queue", "list"]).done().contains("strict_fifo"));

    let stats = db.run(["stats", "--json"]).json();
    assert_eq!(stats["jobs"]["pending"], json!({"value": 2, "capped": false}));
    assert_eq!((&stats["workers"], &stats["leader"]), (&json!([]), &json!(null)));
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_error() {
    let db = Database::new().await;
    db.run(["enqueue", "a"]).done();
    let mut command = db.taskq(["job", "list"]);
    let mut child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}
