//! `taskq enqueue --idempotency-key`.

use serde_json::json;

use crate::harness::Database;

const KEYED: [&str; 4] = ["enqueue", "a", "--idempotency-key", "k"];

#[tokio::test]
async fn a_key_that_is_taken_writes_nothing_and_says_whose_it_is() {
    let db = Database::new().await;
    let id = db.run(KEYED).done().to_owned();
    let again = db.run(["enqueue", "a", "2", "--idempotency-key", "k"]);
    assert_eq!((again.code, again.stdout.trim()), (Some(0), id.as_str()));
    for part in ["warning: ", "`k`", &id, "pending", "nothing was written"] {
        assert!(again.stderr.contains(part), "{part}: {again:?}");
    }
    assert_eq!(again.stderr.lines().count(), 1);
    let again = db.run(["enqueue", "a", "--idempotency-key", "k", "--json"]);
    assert_eq!(again.json(), json!({"id": id, "outcome": "existing", "status": "pending"}));
    assert_eq!(db.job(&id)["payload"], json!(null));
    let other = db.run(["enqueue", "b", "--idempotency-key", "k"]);
    assert_ne!(other.done(), id, "a key is its actor's own");
    assert_eq!(db.jobs().await, 2);
}

#[tokio::test]
async fn a_key_of_a_job_that_has_ended_is_not_overlooked() {
    let db = Database::new().await;
    let id = db.run(KEYED).done().to_owned();
    db.run(["job", "cancel", &id]).done();

    let refused = db.run(KEYED);
    refused.refused(1, &["`k`", &id, "cancelled", "--on-finished return", "run-again"]);
    assert_eq!(refused.stdout, "", "an id would look like success");
    let refused = db.run(["enqueue", "a", "--idempotency-key", "k", "--json"]);
    refused.refused(1, &[&id]);
    assert_eq!(refused.json(), json!({"id": id, "outcome": "existing", "status": "cancelled"}));

    let returned = db.run(["enqueue", "a", "--idempotency-key", "k", "--on-finished", "return"]);
    assert_eq!((returned.code, returned.stdout.trim()), (Some(0), id.as_str()));
    assert!(returned.stderr.contains("cancelled"), "{returned:?}");
    assert_eq!(db.jobs().await, 1);

    let again = db.run(["enqueue", "a", "--idempotency-key", "k", "--on-finished", "run-again", "--json"]);
    again.done();
    let answer = again.json();
    assert_eq!((&answer["outcome"], &answer["status"]), (&json!("replaced"), &json!("pending")));
    assert_ne!(answer["id"], json!(id));
    let third = db.run(["enqueue", "a", "--idempotency-key", "k", "--on-finished", "run-again", "--json"]);
    assert_eq!(third.json(), json!({"id": answer["id"], "outcome": "existing", "status": "pending"}));
    assert_eq!(db.jobs().await, 2);
}

#[tokio::test]
async fn a_key_that_outlived_its_job_is_not_overlooked() {
    let db = Database::new().await;
    let id = db.run(KEYED).done().to_owned();
    db.client.execute("DELETE FROM taskq.jobs", &[]).await.unwrap();
    db.run(KEYED).refused(1, &[&id, "not there any more", "--on-finished return"]);
    let returned = db.run(["enqueue", "a", "--idempotency-key", "k", "--on-finished", "return", "--json"]);
    assert_eq!(returned.json(), json!({"id": id, "outcome": "existing", "status": null}));
    assert_eq!(db.jobs().await, 0);
}
