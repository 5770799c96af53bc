//! What a worker asks of the server.

use std::time::Duration;

use taskq::prelude::*;
use taskq_testkit::wait_until;

use crate::manual::database;

const PATIENCE: Duration = Duration::from_secs(20);

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

/// Statements that an idle leader with its own worker sends, counted by the server against its own looks, of which it
/// makes one a second.
#[tokio::test]
async fn an_idle_leader_sends_at_most_two_statements_for_each_of_its_looks() {
    let database = database().await;
    let observer = database.connect().await.unwrap();
    let preloaded = "SELECT current_setting('shared_preload_libraries') LIKE '%pg_stat_statements%'";
    if !observer.query_one(preloaded, &[]).await.unwrap().get::<_, bool>(0) {
        return;
    }
    observer.batch_execute("CREATE EXTENSION pg_stat_statements").await.unwrap();
    let taskq = TaskQ::connect(database.dsn()).await.unwrap();
    let plain = async |_: Plain, _: Context| Ok(());
    let worker = Worker::builder(&taskq).queue("default", 10).handle::<Plain>(plain).build().unwrap().start();
    let ours = "FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
        WHERE d.datname = current_database() AND s.toplevel AND s.query NOT LIKE '%pg_stat_statements%'
            AND s.query NOT ILIKE 'begin%' AND s.query NOT ILIKE 'commit%'";
    let count = async |more: &str| -> i64 {
        let query = format!("SELECT coalesce(sum(s.calls), 0)::bigint {ours} {more}");
        observer.query_one(query.as_str(), &[]).await.unwrap().get(0)
    };
    let looks = "AND s.query LIKE '%sweeps_due%'";
    // The first looks of a leader have a time limit, which is a statement of its own.
    wait_until("it leads and has settled down", PATIENCE * 3, async || count(looks).await >= 8).await;
    let before = (count("").await, count(looks).await);
    wait_until("ten looks more", PATIENCE * 3, async || count(looks).await >= before.1 + 10).await;
    let after = (count("").await, count(looks).await);
    let (statements, looks) = (after.0 - before.0, after.1 - before.1);
    assert!(statements <= 2 * looks, "{statements} statements for {looks} looks");
    worker.stop();
    worker.join().await.unwrap();
}
