//! What a process that dies leaves behind.

use std::process::Stdio;
use std::time::Duration;

use taskq_testkit::wait_for;

use super::scene::{Scene, claim};

const DATABASE: &str = "TASKQ_TEST_DYING_CLIENT";

/// Not a test: the process that dies. It enqueues one job in a transaction that it commits and one in a transaction that
/// it leaves open, and is gone before anything can be tidied up.
#[tokio::test]
#[ignore = "run by the test below, as a process of its own"]
async fn a_client_that_dies() {
    let dsn = std::env::var(DATABASE).unwrap();
    let enqueue =
        "BEGIN; SELECT * FROM taskq.enqueue('{\"queue\": \"q\", \"actor\": \"actor0\", \"payload\": 1}')";
    let open = crate::database::client(&dsn).await;
    open.batch_execute(enqueue).await.unwrap();
    let committing = crate::database::client(&dsn).await;
    committing.batch_execute(enqueue).await.unwrap();
    committing.batch_execute("COMMIT").await.unwrap();
    std::process::abort();
}

#[tokio::test]
async fn of_a_client_that_dies_the_committed_job_runs_and_the_open_one_never() {
    let scene = Scene::new().await;
    let worker = scene.worker(1).await;
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "sql::crash::a_client_that_dies"])
        .env(DATABASE, scene.database.dsn())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status =
        wait_for("the client to die", Duration::from_mins(1), async || child.try_wait().unwrap()).await;
    assert!(!status.success(), "it did not die: {status}");
    wait_for("its sessions to end", Duration::from_mins(1), async || {
        let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
        (scene.value::<i64>(others).await == 0).then_some(())
    })
    .await;
    assert_eq!(claim(&scene.client, worker, 10).await.unwrap().len(), 1);
    assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.jobs").await, 1);
}
