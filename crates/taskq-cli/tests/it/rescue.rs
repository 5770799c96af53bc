//! Workers that die: what they ran is rescued.

use serde_json::json;
use taskq_testkit::{Signal, wait_for, wait_until};

use crate::harness::{Database, WITHIN, stop};

#[tokio::test]
async fn the_jobs_of_a_worker_killed_by_kill_9_run_elsewhere() {
    let db = Database::new().await;
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let actor =
        format!("wait=sh -c 'until [ -e {} ]; do sleep 0.1; done; echo $TASKQ_ATTEMPT'", go.display());
    let serve = |slots| ["--queue=default", slots, "--actor", &actor];
    // It leads: the lease of a leader that died would have to end first.
    let survivor = db.worker(&serve("--slots=1")).await;
    wait_until("it leads", WITHIN, async || db.run(["leader"]).code == Some(0)).await;
    let leader = db.run(["leader", "--json"]).json()["worker"].clone();
    let mut victim = db.worker(&serve("--slots=5")).await;
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(db.enqueue(&json!({"actor": "wait", "payload": null})).await);
    }
    for id in &ids {
        db.wait_for_status(id, "running").await;
    }
    victim.signal(Signal::KILL).unwrap();
    victim.wait(WITHIN).await;
    db.expire(victim.id()).await;
    wait_until("the jobs are taken from it", WITHIN, async || {
        let running = db.run(["job", "list", "--status", "running", "--json"]).json();
        running.as_array().unwrap().iter().all(|job| job["worker"] == leader)
    })
    .await;
    let workers = db.run(["workers", "--json"]).json();
    assert_eq!(workers.as_array().unwrap().iter().filter(|worker| worker["state"] == "lost").count(), 1);
    std::fs::write(&go, "").unwrap();
    let mut rescued = 0;
    for id in &ids {
        db.wait_for_status(id, "succeeded").await;
        let job = db.job(id);
        let first = &job["attempts"][0];
        if first["worker"] == leader {
            continue;
        }
        rescued += 1;
        assert_eq!((&first["outcome"], &first["error"]["class"]), (&json!("crashed"), &json!("lost")));
        assert_eq!((&job["attempt"], &job["result"], &job["worker"]), (&json!(2), &json!(2), &leader));
    }
    assert_eq!(rescued, 5);
    stop(survivor).await;
}

#[tokio::test]
async fn a_running_job_whose_worker_is_lost_says_so() {
    let db = Database::new().await;
    let arguments = ["--queue", "default", "--actor", "wait=sleep 1000"];
    let mut worker = db.worker(&arguments).await;
    let id = db.enqueue(&json!({"actor": "wait", "payload": null})).await;
    db.wait_for_status(&id, "running").await;
    worker.signal(Signal::KILL).unwrap();
    worker.wait(WITHIN).await;
    db.expire(worker.id()).await;
    let lost = async || {
        let workers = db.run(["workers", "--json"]).json();
        (workers[0]["state"] == "lost").then_some(workers)
    };
    let workers = wait_for("its lease has ended", WITHIN, lost).await;
    assert_eq!(workers[0]["lease_left_s"], 0.0);
    let job = db.job(&id);
    assert_eq!((&job["status"], &job["worker_state"]), (&json!("running"), &json!("lost")));
    assert!(db.run(["job", "show", &id]).done().contains("Its worker is lost"));
    assert!(db.run(["workers"]).done().contains("lost"));
}
