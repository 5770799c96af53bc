//! For how long jobs that have ended are kept: `taskq actor set` and `taskq prune`.

use serde_json::json;

use crate::harness::{Database, Ran, WITHIN, run, stop};
use taskq_testkit::wait_until;

impl Database {
    /// Enqueues a job that has ended, cancelled, so many hours ago.
    async fn ended(&self, actor: &str, queue: &str, hours: u32) -> String {
        let id = self.enqueue(&json!({"actor": actor, "queue": queue, "payload": 1})).await;
        self.run(["job", "cancel", &id]).done();
        let long_ago = format!(
            "UPDATE taskq.jobs SET finished_at = finished_at - interval '{hours} hours' WHERE id = '{id}'"
        );
        self.client.batch_execute(&long_ago).await.unwrap();
        id
    }

    fn prune(&self, arguments: &[&str]) -> Ran {
        run(self.taskq(["prune"]).args(arguments))
    }

    async fn periods(&self, actor: &str) -> (Option<String>, Option<String>) {
        let query =
            "SELECT hot_period::text, failed_hot_period::text FROM taskq.actor_config WHERE actor = $1";
        let row = self.client.query_one(query, &[&actor]).await.unwrap();
        (row.get(0), row.get(1))
    }
}

#[tokio::test]
async fn what_has_ended_long_ago_is_pruned_and_nothing_else() {
    let db = Database::new().await;
    let old = db.ended("a", "q", 50).await;
    let other_queue = db.ended("a", "r", 50).await;
    let other_actor = db.ended("b", "q", 50).await;
    let young = db.ended("a", "q", 1).await;
    let ready = db.enqueue(&json!({"actor": "a", "queue": "q", "payload": 1})).await;

    let of_q = ["--older-than", "2d", "--queue", "q", "--actor", "a", "--json"];
    let counted = db.prune(&[&of_q[..], &["--dry-run"]].concat());
    counted.done();
    assert_eq!(counted.json(), json!({"pruned": 1, "archived": 0, "dry_run": true, "complete": true}));
    assert_eq!(db.jobs().await, 5, "nothing is gone");
    let none = db.prune(&["--older-than", "2d", "--status", "failed"]);
    assert_eq!(none.done(), "0 jobs deleted, 0 of them archived");

    let pruned = db.prune(&of_q);
    pruned.done();
    assert_eq!(pruned.json(), json!({"pruned": 1, "archived": 0, "dry_run": false, "complete": true}));
    db.run(["job", "show", &old]).refused(3, &[&old, "was pruned"]);
    for id in [&other_queue, &other_actor, &young, &ready] {
        db.run(["job", "show", id]).done();
    }
    let limited = db.prune(&["--older-than", "2d", "--limit", "1"]);
    assert_eq!((limited.code, limited.stdout.trim()), (Some(0), "1 jobs deleted, 0 of them archived"));
    assert_eq!(limited.stderr.trim(), "the limit was reached: there may be more");
    assert_eq!(db.prune(&["--older-than", "0s"]).done(), "2 jobs deleted, 0 of them archived");
    assert_eq!(db.job(&ready)["status"], "pending", "what has not ended is never pruned");
}

#[tokio::test]
async fn what_cannot_be_pruned_is_refused_before_anything_is() {
    let db = Database::new().await;
    db.ended("a", "q", 50).await;
    db.prune(&["--older-than", "1h", "--status", "running"])
        .refused(2, &["--status", "running have not ended"]);
    db.prune(&["--older-than", "1h", "--status", "ended"]).refused(2, &["--status", "ended"]);
    db.prune(&["--older-than", "1h", "--limit", "0"]).refused(2, &["--limit"]);
    db.prune(&["--older-than=-1h"]).refused(2, &["--older-than"]);
    db.prune(&["--older-than", "long"]).refused(2, &["--older-than", "long"]);
    assert_eq!(db.prune(&[]).code, Some(2), "how old is always said");
    assert_eq!(db.jobs().await, 1);
}

#[tokio::test]
async fn the_periods_of_an_actor_are_set_and_reach_what_has_ended() {
    let db = Database::new().await;
    let id = db.ended("a", "q", 0).await;
    let set = |arguments: &[&str]| run(db.taskq(["actor", "set", "a"]).args(arguments));
    let changed = set(&["--hot-period", "3h", "--failed-hot-period", "48h", "--json"]);
    changed.done();
    assert_eq!(changed.json(), json!({"actor": "a", "changed": true}));
    assert_eq!(db.periods("a").await, (Some("03:00:00".to_owned()), Some("48:00:00".to_owned())));
    assert_eq!(set(&["--hot-period", "3h"]).done(), "the actor `a` was set so already");
    // What is not said stays.
    assert_eq!(set(&["--failed-hot-period", "default"]).done(), "the actor `a` is set");
    assert_eq!(db.periods("a").await, (Some("03:00:00".to_owned()), None));

    let worker = db.worker(&["--queue", "other", "--actor", "other=cat"]).await;
    let stamp =
        "SELECT prune_at - finished_at = interval '3 hours' FROM taskq.jobs WHERE id = $1::text::uuid";
    wait_until("the stamp of what had ended before", WITHIN, async || {
        db.client.query_one(stamp, &[&id]).await.unwrap().get(0)
    })
    .await;
    stop(worker).await;
}

#[tokio::test]
async fn periods_that_make_no_sense_are_refused_with_what_would() {
    let db = Database::new().await;
    let set = |arguments: &[&str]| run(db.taskq(["actor", "set", "a"]).args(arguments));
    set(&[]).refused(2, &["--hot-period", "--failed-hot-period"]);
    set(&["--hot-period", "59s"]).refused(2, &["hot_period", "1 minute"]);
    set(&["--hot-period=-1h"]).refused(2, &["--hot-period"]);
    set(&["--failed-hot-period", "never"]).refused(2, &["--failed-hot-period", "never"]);
    run(db.taskq(["actor", "set", "", "--hot-period", "2h"]).args([""; 0])).refused(2, &["actor"]);
    let rows: i64 = db.client.query_one("SELECT count(*) FROM taskq.actor_config", &[]).await.unwrap().get(0);
    assert_eq!(rows, 0, "nothing is written");
}
