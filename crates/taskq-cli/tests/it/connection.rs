//! The database that cannot be reached, or does not fit: exit codes 4 and 5.

use taskq_testkit::shared_server;

use crate::harness::{Database, run, taskq};

#[test]
fn no_server_is_exit_code_4() {
    // Nobody listens on port 1.
    let dsn = "postgres://u:secret@127.0.0.1:1/x";
    for verb in [
        vec!["stats"],
        vec!["migrate", "up"],
        vec!["migrate", "status"],
        vec!["enqueue", "a"],
        vec!["worker", "--queue", "q", "--actor", "a=cat"],
    ] {
        let ran = run(taskq().args(&verb).args(["--dsn", dsn]));
        ran.refused(4, &["127.0.0.1:1"]);
        assert!(!ran.stderr.contains("secret"), "{ran:?}");
    }
}

#[tokio::test]
async fn a_refused_connection_is_exit_code_4() {
    let dsn = shared_server().await.dsn();
    let (_, address) = dsn.rsplit_once('@').unwrap();
    // A server that asks for passwords refuses the password, one that trusts everybody knows no such role.
    let wrong = format!("postgres://taskq_nobody:wrong@{address}");
    run(taskq().args(["stats", "--dsn", &wrong])).refused(4, &["taskq_nobody"]);
    let (server, _) = dsn.rsplit_once('/').unwrap();
    let missing = format!("{server}/taskq_no_such_database");
    run(taskq().args(["migrate", "up", "--dsn", &missing])).refused(4, &["taskq_no_such_database"]);
}

#[tokio::test]
async fn a_missing_schema_is_exit_code_5() {
    let database = shared_server().await.empty_database().await.unwrap();
    for verb in [vec!["stats"], vec!["enqueue", "a"], vec!["worker", "--queue", "q", "--actor", "a=cat"]] {
        let ran = run(taskq().args(&verb).args(["--dsn", database.dsn()]));
        ran.refused(5, &["\"taskq\"", "missing", "taskq migrate up"]);
    }
    let ran = run(taskq().args(["stats", "--schema", "other", "--dsn", database.dsn()]));
    ran.refused(5, &["\"other\""]);
}

#[tokio::test]
async fn a_newer_schema_is_exit_code_5() {
    let db = Database::new().await;
    let newer = "INSERT INTO taskq.schema_migrations (version, phase, name, checksum)
                 VALUES ('99.00.00', 'pre', '99.00.00_01_pre_future.sql', 'x')";
    db.client.batch_execute(newer).await.unwrap();
    for verb in [["stats", "--json"], ["enqueue", "a"], ["migrate", "up"]] {
        db.run(verb).refused(5, &["newer", "99.00.00_01_pre_future.sql"]);
    }
}

#[tokio::test]
async fn an_older_schema_is_exit_code_5() {
    let db = Database::new().await;
    db.client.batch_execute("DELETE FROM taskq.schema_migrations WHERE phase = 'functions'").await.unwrap();
    db.run(["stats"]).refused(5, &["older", "taskq migrate up"]);
}
