//! `taskq migrate`.

use std::process::Stdio;

use taskq_testkit::shared_server;

use crate::harness::{Database, run, taskq};

#[tokio::test]
async fn a_schema_is_planned_made_and_verified() {
    let database = shared_server().await.empty_database().await.unwrap();
    let migrate = |arguments: &[&str]| {
        run(taskq().arg("migrate").args(arguments).args(["--schema", "jobs", "--dsn", database.dsn()]))
    };
    let status = migrate(&["status", "--json"]).json();
    assert_eq!((&status["exists"], &status["schema"]), (&false.into(), &"jobs".into()));
    migrate(&["verify"]).refused(5, &["\"jobs\"", "missing"]);

    let plan = migrate(&["plan", "--json"]).json();
    let steps: Vec<_> = plan["steps"].as_array().unwrap().iter().map(|step| step.as_str().unwrap()).collect();
    assert_eq!((steps.first(), steps.last()), (Some(&"schema"), Some(&"functions")));
    let sql = migrate(&["up", "--sql"]);
    assert!(sql.done().contains("CREATE TABLE \"jobs\".jobs"));
    assert_eq!(sql.stdout, migrate(&["plan", "--sql"]).stdout);
    assert!(!database_has_schema(&database, "jobs").await, "printing SQL runs none");

    assert!(migrate(&["up"]).done().contains("applied functions"));
    let again = migrate(&["up"]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), ""));
    assert!(again.stderr.contains("nothing to do"));
    assert_eq!(migrate(&["up", "--json"]).json()["steps"], serde_json::json!([]));
    assert!(migrate(&["status"]).done().contains("pending: 0"));
    migrate(&["verify"]).done();
    run(taskq().args(["enqueue", "a", "--schema", "jobs", "--dsn", database.dsn()])).done();
}

#[tokio::test]
async fn one_phase_can_be_applied_alone() {
    let database = shared_server().await.empty_database().await.unwrap();
    let migrate =
        |arguments: &[&str]| run(taskq().arg("migrate").args(arguments).args(["--dsn", database.dsn()]));
    migrate(&["up", "--phase", "pre"]).done();
    assert!(migrate(&["plan", "--phase", "pre", "--json"]).json()["steps"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn ten_at_once_are_one() {
    let database = shared_server().await.empty_database().await.unwrap();
    let up =
        || taskq().args(["migrate", "up", "--json", "--dsn", database.dsn()]).stdout(Stdio::piped()).spawn();
    let running: Vec<_> = (0..10).map(|_| up().unwrap()).collect();
    let mut steps = Vec::new();
    for one in running {
        let output = one.wait_with_output().unwrap();
        assert!(output.status.success());
        let applied: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        steps.extend(applied["steps"].as_array().unwrap().iter().map(ToString::to_string));
    }
    let mut distinct = steps.clone();
    distinct.sort();
    distinct.dedup();
    assert!(!steps.is_empty());
    assert_eq!(steps.len(), distinct.len(), "each step was run once: {steps:?}");
    run(taskq().args(["migrate", "verify", "--dsn", database.dsn()])).done();
}

#[tokio::test]
async fn a_schema_that_is_newer_is_left_as_it_is() {
    let db = Database::new().await;
    let newer = "INSERT INTO taskq.schema_migrations (version, phase, name, checksum)
        VALUES ('99.00.00', 'pre', '99.00.00_01_pre_later.sql', 'x')";
    db.client.batch_execute(newer).await.unwrap();
    // What is outdated as well must not tempt it.
    db.client.batch_execute("DELETE FROM taskq.schema_migrations WHERE phase = 'functions'").await.unwrap();
    let ledger = async || {
        let sql = "SELECT count(*), max(applied_at)::text FROM taskq.schema_migrations";
        let row = db.client.query_one(sql, &[]).await.unwrap();
        (row.get::<_, i64>(0), row.get::<_, String>(1))
    };
    let before = ledger().await;
    for arguments in
        [["migrate", "up"], ["migrate", "plan"], ["job", "list"], ["stats", "--json"], ["enqueue", "a"]]
    {
        db.run(arguments).refused(5, &["99.00.00_01_pre_later.sql", "upgrade the program"]);
    }
    assert_eq!(ledger().await, before);
}

#[tokio::test]
async fn what_was_changed_by_hand_is_found() {
    let db = Database::new().await;
    db.client.batch_execute("DROP FUNCTION taskq.clock_now() CASCADE").await.unwrap();
    let found = db.run(["migrate", "verify", "--json"]);
    found.refused(1, &["findings"]);
    assert_eq!(found.json()["findings"][0]["finding"], "function_missing");
    assert!(db.run(["migrate", "verify"]).stdout.contains("clock_now"));
}

#[tokio::test]
async fn roles_are_granted_listed_and_revoked() {
    let db = Database::new().await;
    let role = format!("role_{}", db.database.name());
    db.client.batch_execute(&format!("CREATE ROLE {role}")).await.unwrap();
    assert!(db.run(["migrate", "grants"]).stderr.contains("no role"));
    let wrong = db.run(["migrate", "grant", "boss", &role]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("boss"), "{wrong:?}");
    db.run(["migrate", "grant", "worker", "nobody"]).refused(2, &["there is no role \"nobody\""]);
    db.run(["migrate", "grant", "worker", "postgres"]).refused(2, &["superuser"]);
    assert!(db.run(["migrate", "grant", "worker", &role]).done().contains("worker"));
    let granted = db.run(["migrate", "grants", "--json"]);
    granted.done();
    assert_eq!(granted.json(), serde_json::json!([{"role": role, "kind": "worker", "problems": []}]));
    db.client.batch_execute(&format!("REVOKE SELECT ON taskq.jobs FROM {role}")).await.unwrap();
    let lacking = db.run(["migrate", "grants"]);
    lacking.refused(1, &["1 role"]);
    assert!(lacking.stdout.contains("lacks SELECT on TABLE taskq.jobs"), "{lacking:?}");

    // What the role may not do names the grant.
    let as_role = format!("{}?options=-c%20role%3D{role}", db.database.dsn());
    run(taskq().args(["queue", "set", "q", "--mode", "round_robin", "--dsn", &as_role]))
        .refused(1, &["EXECUTE on function \"taskq\".set_queue", "taskq migrate grant operator ROLE"]);
    run(taskq().args(["migrate", "grant", "operator", &role, "--dsn", &as_role]))
        .refused(1, &["owns the schema"]);

    db.run(["migrate", "revoke", &role]).done();
    db.run(["migrate", "revoke", &role]).refused(3, &["was granted nothing"]);
    db.client.batch_execute(&format!("DROP ROLE {role}")).await.unwrap();
}

async fn database_has_schema(database: &taskq_testkit::TestDatabase, schema: &str) -> bool {
    let client = database.connect().await.unwrap();
    client.query_opt("SELECT FROM pg_namespace WHERE nspname = $1", &[&schema]).await.unwrap().is_some()
}
