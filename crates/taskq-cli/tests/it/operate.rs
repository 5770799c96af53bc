//! What operators do: `taskq job cancel` and `retry`, `queue`, `actor`, `workers`, `leader`.

use serde_json::{Value, json};
use taskq_testkit::wait_until;

use crate::harness::{Database, WITHIN, run, stop};

const NOWHERE: &str = "0196f1f4-0000-7000-8000-000000000000";

impl Database {
    fn add(&self, arguments: &[&str]) -> String {
        run(self.taskq(["enqueue"]).args(arguments)).done().to_owned()
    }

    fn jobs_with(&self, status: &str) -> usize {
        self.run(["job", "list", "--status", status, "--json"]).json().as_array().unwrap().len()
    }
}

#[tokio::test]
async fn jobs_are_cancelled_and_retried_by_their_ids() {
    let db = Database::new().await;
    let (first, second) = (db.add(&["a"]), db.add(&["a", "--in", "1h"]));
    let ran = db.run(["job", "cancel", &first, &second, "--reason", "not wanted", "--json"]);
    ran.done();
    let outcome =
        |id: &str, outcome: &str, status: &str| json!({"id": id, "outcome": outcome, "status": status});
    let cancelled = |id| outcome(id, "cancelled", "cancelled");
    assert_eq!(ran.json(), json!([cancelled(&first), cancelled(&second)]));
    assert_eq!(db.job(&first)["error"], json!({"class": "cancelled", "message": "not wanted"}));

    let again = db.run(["job", "cancel", &first]);
    assert!(again.done().contains("finished") && again.stdout.contains(&first), "{again:?}");
    let missing = db.run(["job", "cancel", &first, NOWHERE, "--json"]);
    missing.refused(3, &[NOWHERE, "never existed"]);
    let gone = json!({"id": NOWHERE, "outcome": "not_found", "status": null});
    assert_eq!(missing.json(), json!([outcome(&first, "finished", "cancelled"), gone]));

    let retried = db.run(["job", "retry", &first, &first, "--json"]);
    retried.done();
    let (done, unfinished) =
        (outcome(&first, "retried", "pending"), outcome(&first, "unfinished", "pending"));
    assert_eq!(retried.json(), json!([done, unfinished]));
    db.run(["job", "retry", NOWHERE]).refused(3, &[NOWHERE]);
    assert_eq!(db.job(&first)["status"], "pending");
}

#[tokio::test]
async fn jobs_are_cancelled_and_retried_by_what_they_have_in_common() {
    let db = Database::new().await;
    for arguments in [
        ["a", "--queue=q", "--tag=t", "--in=0s"],
        ["b", "--queue=q", "--tag=u", "--in=1h"],
        ["a", "--queue=r", "--tag=t", "--in=0s"],
        ["a", "--queue=r", "--tag=u", "--in=0s"],
    ] {
        db.add(&arguments);
    }
    let cancel = |arguments: &[&str]| run(db.taskq(["job", "cancel", "--json"]).args(arguments));
    let none = json!({"cancelled": 0, "requested": 0, "complete": true});
    assert_eq!(cancel(&["--queue", "nowhere"]).json(), none);
    assert_eq!(cancel(&["--queue", "q", "--actor", "a", "--tag", "u"]).json(), none, "everything narrows");
    assert_eq!(cancel(&["--status", "scheduled"]).json()["cancelled"], 1);
    assert_eq!(cancel(&["--tag", "t", "--reason", "why"]).json()["cancelled"], 2);
    assert_eq!(cancel(&["--all"]).json()["cancelled"], 1);
    assert_eq!(cancel(&["--all"]).json(), none);
    assert_eq!(db.jobs_with("cancelled"), 4);

    let retry = |arguments: &[&str]| run(db.taskq(["job", "retry", "--json"]).args(arguments));
    assert_eq!(retry(&["--all"]).json(), json!({"retried": 0, "complete": true}), "it was wanted so");
    assert_eq!(retry(&["--status", "cancelled", "--queue", "q"]).json()["retried"], 2);
    assert_eq!(db.jobs_with("pending"), 2);
    db.client
        .execute("UPDATE taskq.jobs SET status = 'failed' WHERE status = 'cancelled'", &[])
        .await
        .unwrap();
    let ran = run(db.taskq(["job", "retry"]).args(["--all"]));
    assert_eq!(ran.done(), "2 jobs are ready again");
    assert_eq!(db.jobs_with("pending"), 4);
}

#[tokio::test]
async fn a_filter_stops_at_its_limit() {
    let db = Database::new().await;
    let many: Vec<Value> = (0..2_500).map(|_| json!({"actor": "a", "payload": null})).collect();
    let enqueue = "SELECT count(*) FROM taskq.enqueue_many($1)";
    db.client.query_one(enqueue, &[&Value::Array(many)]).await.unwrap();
    let limited = db.run(["job", "cancel", "--actor", "a", "--limit", "1200", "--json"]).json();
    assert_eq!(limited, json!({"cancelled": 1_200, "requested": 0, "complete": false}));
    let limited = db.run(["job", "cancel", "--actor", "a", "--limit", "1"]);
    assert_eq!((limited.code, limited.stderr.trim()), (Some(0), "the limit was reached: there may be more"));
    let rest = db.run(["job", "cancel", "--actor", "a"]);
    assert_eq!(rest.done(), "1299 jobs cancelled, 0 running ones asked to end");
}

#[tokio::test]
async fn a_paused_queue_hands_out_nothing_until_it_is_resumed() {
    let db = Database::new().await;
    let worker = db.worker(&["--queue", "q", "--queue", "r", "--actor", "echo=cat"]).await;
    let paused = db.run(["queue", "pause", "q", "--json"]);
    assert_eq!(paused.json(), json!({"queue": "q", "paused": true, "changed": true}));
    assert!(db.run(["queue", "pause", "q"]).done().contains("was paused already"));
    let held = db.add(&["echo", "1", "--queue", "q"]);
    for _ in 0..3 {
        // Each is claimed by a look that may see the other queue as well.
        let other = db.add(&["echo", "1", "--queue", "r"]);
        db.wait_for_status(&other, "succeeded").await;
    }
    let job = db.job(&held);
    assert_eq!((&job["status"], &job["queue_paused"]), (&json!("pending"), &json!(true)));
    assert!(db.run(["job", "show", &held]).done().contains("The queue `q` is paused"));
    let queues = db.run(["queue", "list", "--json"]).json();
    assert_eq!((&queues[0]["paused"], &queues[1]["paused"]), (&json!(true), &json!(false)));
    assert!(db.run(["queue", "list"]).done().contains("PAUSED"));

    assert!(db.run(["queue", "resume", "q"]).done().contains("is resumed"));
    db.wait_for_status(&held, "succeeded").await;
    let resumed = db.run(["queue", "resume", "q", "--json"]);
    assert_eq!(resumed.json(), json!({"queue": "q", "paused": false, "changed": false}));
    assert!(!db.run(["queue", "list"]).done().contains("PAUSED"));
    stop(worker).await;
}

#[tokio::test]
async fn a_queue_lets_its_cohorts_take_turns_once_it_is_set_so() {
    let db = Database::new().await;
    let refused = db.run(["enqueue", "echo", "1", "--queue", "q", "--fairness", "t"]);
    refused.refused(
        2,
        &["fairness_key needs a queue in round_robin mode", "taskq queue set q --mode round_robin"],
    );
    db.run(["queue", "set", "q", "--mode", "fair"]).refused(2, &["strict_fifo", "round_robin"]);
    db.run(["queue", "set", "q"]).refused(2, &["--mode"]);

    let set = |mode: &str| db.run(["queue", "set", "q", "--mode", mode, "--json"]).json();
    let answer = |mode: &str, changed: bool, merged: u64| json!({"queue": "q", "mode": mode, "changed": changed, "merged": merged});
    assert_eq!(set("round_robin"), answer("round_robin", true, 0));
    assert_eq!(set("round_robin"), answer("round_robin", false, 0));
    assert!(db.run(["queue", "list"]).done().contains("round_robin"));
    assert_eq!(db.run(["queue", "list", "--json"]).json()[0]["mode"], "round_robin");
    let heavy = db.add(&["echo", "1", "--queue", "q", "--fairness", "heavy"]);
    assert_eq!(db.job(&heavy)["fairness_key"], "heavy");
    assert!(db.run(["job", "show", &heavy]).done().contains("fairness key"));
    for _ in 0..3 {
        db.add(&["echo", "1", "--queue", "q", "--fairness", "heavy"]);
    }
    let light = db.add(&["echo", "1", "--queue", "q", "--fairness", "light"]);
    let worker = db.worker(&["--queue", "q", "--slots", "1", "--actor", "echo=cat"]).await;
    db.wait_for_status(&light, "succeeded").await;
    db.wait_for_status(&heavy, "succeeded").await;
    stop(worker).await;

    let left = db.add(&["echo", "1", "--queue", "q", "--fairness", "left"]);
    let back = db.run(["queue", "set", "q", "--mode", "strict_fifo"]);
    assert!(back.done().contains("is in strict_fifo mode; "), "{back:?}");
    assert!(
        db.run(["queue", "set", "q", "--mode", "strict_fifo"])
            .done()
            .contains("was in strict_fifo mode already")
    );
    let worker = db.worker(&["--queue", "q", "--actor", "echo=cat"]).await;
    db.wait_for_status(&left, "succeeded").await;
    stop(worker).await;
}

#[tokio::test]
async fn actors_are_paused_and_listed() {
    let db = Database::new().await;
    let none = db.run(["actor", "list"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""));
    let worker = db.worker(&["--queue", "q", "--actor", "echo=cat", "--actor", "other=cat"]).await;
    let paused = db.run(["actor", "pause", "echo", "--json"]);
    assert_eq!(paused.json(), json!({"actor": "echo", "paused": true, "changed": true}));
    let held = db.add(&["echo", "1", "--queue", "q"]);
    let free = db.add(&["other", "1", "--queue", "q"]);
    db.wait_for_status(&free, "succeeded").await;
    let job = db.job(&held);
    assert_eq!((&job["status"], &job["actor_paused"]), (&json!("pending"), &json!(true)));
    assert!(db.run(["job", "show", &held]).done().contains("The actor `echo` is paused"));

    db.add(&["lost", "--queue", "q"]);
    db.add(&["echo", "--queue", "nowhere"]);
    let unserved = |queue: &str| json!([{"queue": queue, "pending": {"value": 1, "capped": false}}]);
    let expected = json!([
        {"actor": "echo", "paused": true, "workers": 1, "unserved": unserved("nowhere")},
        {"actor": "lost", "paused": false, "workers": 0, "unserved": unserved("q")},
        {"actor": "other", "paused": false, "workers": 1, "unserved": []},
    ]);
    assert_eq!(db.run(["actor", "list", "--json"]).json(), expected);
    assert!(db.run(["actor", "list"]).done().contains("1 in nowhere"));

    assert!(db.run(["actor", "resume", "echo"]).done().contains("is resumed"));
    db.wait_for_status(&held, "succeeded").await;
    stop(worker).await;
}

#[tokio::test]
async fn workers_and_the_leader_are_named() {
    let db = Database::new().await;
    db.run(["leader"]).refused(1, &["no worker leads"]);
    let nobody = db.run(["leader", "--json"]);
    nobody.refused(1, &["no worker leads"]);
    let nobody = nobody.json();
    assert_eq!((&nobody["worker"], &nobody["sweeps"][0]["sweep"]), (&json!(null), &json!("promote")));
    let none = db.run(["workers"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""));

    let arguments = ["--queue", "q", "--actor", "wait=sleep 1000", "--lease", "1m", "--shutdown-grace", "0s"];
    let worker = db.worker(&arguments).await;
    let id = db.add(&["wait", "--queue", "q"]);
    db.wait_for_status(&id, "running").await;
    wait_until("somebody leads", WITHIN, async || db.run(["leader"]).code == Some(0)).await;
    let workers = db.run(["workers", "--json"]).json();
    let leader = db.run(["leader", "--json"]).json();
    let session = &workers[0];
    assert_eq!((&session["worker"], &session["state"]), (&leader["worker"], &json!("active")));
    assert_eq!((&session["leads"], &session["running"]["value"]), (&json!(true), &json!(1)));
    assert_eq!((&session["queues"], &session["actors"]), (&json!(["q"]), &json!(["wait"])));
    let left = session["lease_left_s"].as_f64().unwrap();
    assert!(left > 15.0 && left <= 60.0, "{left}");
    assert!(leader["epoch"].as_i64() > Some(0) && leader["lease_left_s"].as_f64() > Some(0.0), "{leader}");
    let text = db.run(["workers"]);
    for part in ["active", "leads", "LEASE LEFT", "wait"] {
        assert!(text.done().contains(part), "{part}: {text:?}");
    }
    assert!(db.run(["leader"]).done().contains("lease left"));
    assert_eq!(db.job(&id)["worker_state"], "active");
    stop(worker).await;
    db.run(["leader"]).refused(1, &["no worker leads"]);
}
