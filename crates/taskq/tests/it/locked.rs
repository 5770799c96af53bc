//! A job that somebody else holds must not hold up the others.

use std::time::Duration;

use taskq::prelude::*;

use crate::manual::database;

const PATIENCE: Duration = Duration::from_mins(1);

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(actor = "plain")]
struct Plain;

#[tokio::test]
async fn a_job_that_a_transaction_holds_delays_its_own_outcome_and_no_other() {
    let database = database().await;
    let taskq = TaskQ::connect(database.dsn()).await.unwrap();
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let (held, free) = (taskq.enqueue(&Plain).await.unwrap(), taskq.enqueue(&Plain).await.unwrap());
    let passing = gate.clone();
    let worker = Worker::builder(&taskq)
        .queue("default", 2)
        .handle::<Plain>(move |_: Plain, _: Context| {
            let gate = passing.clone();
            async move {
                gate.acquire().await?.forget();
                Ok(())
            }
        })
        .build()
        .unwrap()
        .start();
    let holder = database.connect().await.unwrap();
    taskq_testkit::wait_until("both jobs to run", PATIENCE, async || {
        let running = "SELECT count(*) = 2 FROM taskq.jobs WHERE status = 'running'";
        holder.query_one(running, &[]).await.unwrap().get(0)
    })
    .await;
    holder
        .batch_execute(&format!("BEGIN; SELECT FROM taskq.jobs WHERE id = '{}' FOR UPDATE", held.id()))
        .await
        .unwrap();
    gate.add_permits(2);
    free.wait_timeout(PATIENCE).await.unwrap();
    assert_eq!(held.status().await.unwrap(), taskq::Status::Running, "its outcome waits");
    holder.batch_execute("COMMIT").await.unwrap();
    held.wait_timeout(PATIENCE).await.unwrap();
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.succeeded, report.failed, report.stale, report.unsettled), (2, 0, 0, 0), "{report:?}");
}
