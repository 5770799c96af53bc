//! Attempts that are stopped: by a cancellation, by the end of their worker.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use taskq_testkit::{Signal, wait_for, wait_until};

use crate::harness::{Database, WITHIN, stop};
use crate::programs::runs;

/// A program that writes its id and that of a child, and waits; SIGTERM does nothing to either.
fn deaf(directory: &Path) -> String {
    format!(
        "deaf=sh -c 'trap \"\" TERM; sleep 1000 & echo $! > {0}/child; echo $$ > {0}/self; wait'",
        directory.display()
    )
}

/// Waits until the program and its child have said who they are.
async fn processes(directory: &Path) -> [String; 2] {
    let read = |name: &str| {
        let text = std::fs::read_to_string(directory.join(name)).ok()?;
        text.strip_suffix('\n').map(str::to_owned)
    };
    wait_for("the program runs", WITHIN, async || Some([read("self")?, read("child")?])).await
}

async fn are_gone(processes: &[String; 2]) {
    for process in processes {
        wait_until(&format!("{process} is gone"), WITHIN, async || !runs(process)).await;
    }
}

#[tokio::test]
async fn a_cancelled_program_is_asked_to_end() {
    let db = Database::new().await;
    let directory = tempfile::tempdir().unwrap();
    let wait = deaf(directory.path()).replace("deaf=", "wait=").replace("trap \"\" TERM; ", "");
    let tidy = "tidy=sh -c 'trap \"echo 5; exit 0\" TERM; echo up >&2; while :; do sleep 0.1; done'";
    let fails = "fails=sh -c 'trap \"echo cleaned up >&2; exit 3\" TERM; while :; do sleep 0.1; done'";
    let worker =
        db.worker(&["--queue", "default", "--actor", &wait, "--actor", tidy, "--actor", fails]).await;
    let id = db.enqueue(&json!({"actor": "wait", "payload": null})).await;
    let running = processes(directory.path()).await;
    let ran = db.run(["job", "cancel", &id, "--json"]);
    assert_eq!(ran.json(), json!([{"id": id, "outcome": "requested", "status": "running"}]));
    // Long before the grace of 30 s is over.
    db.wait_for_status(&id, "cancelled").await;
    are_gone(&running).await;
    let job = db.job(&id);
    assert_eq!((&job["error"]["class"], &job["attempt"]), (&json!("cancelled"), &json!(1)));

    let fails = db.enqueue(&json!({"actor": "fails", "payload": null})).await;
    let tidy = db.enqueue(&json!({"actor": "tidy", "payload": null})).await;
    for id in [&fails, &tidy] {
        db.wait_for_status(id, "running").await;
    }
    // A shell that has not come to its trap yet would just end: it is asked once it has a child.
    wait_until("both have set their traps", WITHIN, async || shells_with_children(worker.id()) >= 2).await;
    db.run(["job", "cancel", &fails, &tidy]).done();
    db.wait_for_status(&fails, "cancelled").await;
    let error = &db.job(&fails)["error"];
    assert_eq!(error["class"], "exit_3");
    // The shell says of its own accord what became of its child.
    assert!(error["message"].as_str().unwrap().ends_with("cleaned up"), "{error}");
    db.wait_for_status(&tidy, "succeeded").await;
    assert_eq!(db.job(&tidy)["result"], 5, "what it did counts");
    stop(worker).await;
}

/// How many children of a process have children themselves.
fn shells_with_children(parent: u32) -> usize {
    let children = |process: &str| {
        let path = format!("/proc/{process}/task/{process}/children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    crate::death::children_of(parent).iter().filter(|child| !children(child).is_empty()).count()
}

#[tokio::test]
async fn a_cancelled_program_that_does_not_end_is_killed_with_its_children() {
    let db = Database::new().await;
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--queue", "default", "--actor", &deaf(directory.path()), "--cancel-grace", "1s"];
    let worker = db.worker(&arguments).await;
    let id = db.enqueue(&json!({"actor": "deaf", "payload": null})).await;
    let running = processes(directory.path()).await;
    assert_eq!(db.job(&id)["cancel_requested"], false);
    db.run(["job", "cancel", "--actor", "deaf"]).done();
    db.wait_for_status(&id, "cancelled").await;
    are_gone(&running).await;
    assert_eq!(db.job(&id)["error"]["class"], "cancelled");
    stop(worker).await;
}

#[tokio::test]
async fn a_second_signal_gives_everything_back_at_once() {
    let db = Database::new().await;
    let directory = tempfile::tempdir().unwrap();
    let deaf = deaf(directory.path());
    let graces = ["--shutdown-grace", "1h", "--cancel-grace", "1h"];
    let mut worker =
        db.worker(&[&["--queue", "default", "--slots", "2", "--actor", &deaf][..], &graces].concat()).await;
    let cancelled = db.enqueue(&json!({"actor": "deaf", "payload": null})).await;
    let first = processes(directory.path()).await;
    db.run(["job", "cancel", &cancelled]).done();
    let job = db.job(&cancelled);
    assert_eq!((&job["status"], &job["cancel_requested"]), (&json!("running"), &json!(true)));
    assert!(db.run(["job", "show", &cancelled]).done().contains("cancellation was requested"));
    for name in ["self", "child"] {
        std::fs::remove_file(directory.path().join(name)).unwrap();
    }
    let released = db.enqueue(&json!({"actor": "deaf", "payload": null})).await;
    let second = processes(directory.path()).await;

    worker.signal(Signal::TERM).unwrap();
    worker.wait_for_line("ask again to end now", WITHIN).await;
    worker.signal(Signal::TERM).unwrap();
    assert_eq!(worker.wait(WITHIN).await.code(), Some(0), "{:?}", worker.stderr());
    are_gone(&first).await;
    are_gone(&second).await;
    let job = db.job(&released);
    assert_eq!((&job["status"], &job["attempt"]), (&json!("pending"), &json!(0)));
    assert_eq!(job["attempts"][0]["outcome"], "released");
    assert_eq!(db.job(&cancelled)["status"], "cancelled");
}

#[tokio::test]
async fn an_outcome_that_cannot_be_recorded_is_exit_code_1() {
    let db = Database::new().await;
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let actor = format!("wait=sh -c 'until [ -e {} ]; do sleep 0.05; done'", go.display());
    let mut worker = db.worker(&["--queue", "default", "--actor", &actor, "--lease", "6s"]).await;
    let id = db.enqueue(&json!({"actor": "wait", "payload": null})).await;
    db.wait_for_status(&id, "running").await;
    let hide = "ALTER FUNCTION taskq.settle_batch(uuid, uuid[], bigint[], text[], jsonb[]) RENAME TO away";
    db.client.batch_execute(hide).await.unwrap();
    worker.signal(Signal::TERM).unwrap();
    worker.wait_for_line("ask again to end now", WITHIN).await;
    std::fs::write(&go, "").unwrap();
    assert_eq!(worker.wait(WITHIN).await.code(), Some(1), "{:?}", worker.stderr());
    let stderr = worker.stderr();
    let last = stderr.last().unwrap();
    assert!(last.starts_with("error: 0 attempts have not ended and what became of 1 "), "{stderr:?}");
    assert!(stderr.iter().any(|line| line.contains("has stopped") && line.contains("unsettled=1")));
}

/// 100 programs run and others come and go when the worker is asked to end: half of the 100 end within the grace, one of
/// the rest does not even listen.
#[tokio::test]
async fn a_worker_that_is_asked_to_end_claims_nothing_more_and_gives_back_what_does_not_end() {
    const GRACE: &str = "10s";
    let db = Database::new().await;
    let directory = tempfile::tempdir().unwrap();
    let gate = directory.path().join("gate");
    rustix::fs::mkfifoat(rustix::fs::CWD, &gate, rustix::fs::Mode::RWXU).unwrap();
    let mut worker = db
        .worker(&[
            "--queue=many",
            "--queue=busy",
            "--slots=100",
            "--actor",
            &format!("gated=sh -c 'read -r x < {}; echo 1'", gate.display()),
            "--actor",
            "hold=sleep 1000",
            "--actor",
            &deaf(directory.path()),
            "--actor",
            "brief=sleep 0.05",
            "--shutdown-grace",
            GRACE,
        ])
        .await;
    let programs = [("deaf", 1), ("hold", 50), ("gated", 49)];
    let many = programs.into_iter().flat_map(|(actor, jobs)| std::iter::repeat_n(actor, jobs));
    let many: Vec<_> = many.map(|actor| json!({"actor": actor, "queue": "many", "payload": null})).collect();
    let enqueue = "SELECT count(*) FROM taskq.enqueue_many($1)";
    db.client.query_one(enqueue, &[&json!(many)]).await.unwrap();
    let count = async |condition: &str| -> i64 {
        let query = format!("SELECT count(*) FROM taskq.jobs WHERE {condition}");
        db.client.query_one(&query, &[]).await.unwrap().get(0)
    };
    let deaf = processes(directory.path()).await;
    wait_until("100 run", WITHIN, async || count("status = 'running'").await == 100).await;
    // These keep the claims going for as long as there are any: longer than the machine may pause here.
    let busy: Vec<_> =
        (0..10_000).map(|_| json!({"actor": "brief", "queue": "busy", "payload": null})).collect();
    db.client.query_one(enqueue, &[&json!(busy)]).await.unwrap();
    wait_until("some have ended", WITHIN, async || count("status = 'succeeded'").await > 5).await;

    worker.signal(Signal::TERM).unwrap();
    worker.wait_for_line("ask again to end now", WITHIN).await;
    let row = db.client.query_one("SELECT clock_timestamp()::text", &[]).await.unwrap();
    let asked: String = row.get(0);
    // Everyone who waits at the gate passes it.
    drop(std::fs::OpenOptions::new().write(true).open(&gate).unwrap());
    assert_eq!(worker.wait(WITHIN).await.code(), Some(0), "{:?}", worker.stderr());

    // What one call claims has one time.
    let late = "SELECT count(DISTINCT started_at) FROM (SELECT started_at FROM taskq.jobs UNION ALL SELECT started_at FROM taskq.job_attempts) s \
                WHERE started_at > $1::text::timestamptz";
    let late: i64 = db.client.query_one(late, &[&asked]).await.unwrap().get(0);
    assert!(late <= 1, "{late} claims began after the signal was heard: one may have been on its way");
    assert!(count("queue = 'busy' AND claim_epoch = 0").await > 0, "there was something to claim");
    assert_eq!(count("actor = 'gated' AND status = 'succeeded'").await, 49);
    assert_eq!(count("actor IN ('hold', 'deaf') AND status = 'pending' AND attempt = 0").await, 51);
    assert_eq!(
        count("status NOT IN ('pending', 'succeeded') OR status = 'pending' AND attempt > 0").await,
        0
    );
    are_gone(&deaf).await;
    let report = worker.wait_for_line("the worker has stopped", Duration::ZERO).await;
    for part in ["succeeded=", "released=", "stuck=0", "unsettled=0"] {
        assert!(report.contains(part), "{part}: {report}");
    }
}
