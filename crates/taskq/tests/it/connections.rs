//! What a worker asks of the server.

use std::time::Duration;

use taskq::prelude::*;
use taskq_testkit::wait_until;

use crate::manual::database;

const PATIENCE: Duration = Duration::from_mins(1);

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(actor = "plain")]
struct Plain;

#[tokio::test]
async fn a_worker_of_a_thousand_slots_holds_four_connections_and_the_leader_one_more() {
    let database = database().await;
    let observer = database.connect().await.unwrap();
    let taskq = TaskQ::connect(database.dsn()).await.unwrap();
    let plain = async |_: Plain, _: Context| Ok(());
    let worker =
        Worker::builder(&taskq).queue("default", 1_000).handle::<Plain>(plain).build().unwrap().start();
    let handles = taskq.enqueue_many::<Plain>((0..2_000).map(|_| Plain)).await.unwrap();
    for handle in &handles {
        handle.wait_timeout(PATIENCE).await.unwrap();
    }
    let roles =
        "SELECT coalesce(array_agg(application_name ORDER BY application_name), '{}') FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE 'taskq:%'";
    let mut seen: Vec<String> = Vec::new();
    wait_until("the leader's connection", PATIENCE, async || {
        seen = observer.query_one(roles, &[]).await.unwrap().get(0);
        seen.iter().any(|role| role == "taskq:sweep")
    })
    .await;
    assert_eq!(seen, ["taskq:claim", "taskq:client", "taskq:control", "taskq:settle", "taskq:sweep"]);
    worker.stop();
    worker.join().await.unwrap();
}
