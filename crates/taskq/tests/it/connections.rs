//! What a worker asks of the server.

use std::time::{Duration, Instant};

use taskq::prelude::*;
use taskq::{ConnectOptions, WorkerHandle};
use taskq_testkit::{TestDatabase, wait_until};

use crate::manual::database;

const PATIENCE: Duration = Duration::from_mins(1);

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(actor = "plain")]
struct Plain;

async fn start(database: &TestDatabase, slots: u32) -> (TaskQ, WorkerHandle) {
    let taskq = TaskQ::connect_with(database.dsn(), ConnectOptions::new()).await.unwrap();
    let plain = async |_: Plain, _: Context| Ok(());
    let builder = Worker::builder(&taskq).queue("default", slots).handle::<Plain>(plain);
    let worker = builder.build().unwrap().start();
    (taskq, worker)
}

#[tokio::test]
async fn a_worker_of_a_thousand_slots_holds_four_connections_and_the_leader_one_more() {
    let database = database().await;
    let observer = database.connect().await.unwrap();
    let (taskq, worker) = start(&database, 1_000).await;
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

/// Statements that workers sent, by what they call; what a function runs inside is not counted, nor is the time limit of a
/// look that was slow the time before: a machine that is busy elsewhere makes any look slow.
struct Statements {
    beats: i64,
    sweeps: i64,
    all: i64,
}

impl Statements {
    async fn count(observer: &tokio_postgres::Client, database: &str) -> Self {
        let counts = r#"
            SELECT coalesce(sum(s.calls) FILTER (WHERE s.query LIKE '%"taskq".heartbeat(%'), 0)::bigint,
                coalesce(sum(s.calls) FILTER (WHERE s.query LIKE '%"taskq".sweeps_due(%'), 0)::bigint,
                coalesce(sum(s.calls) FILTER (WHERE s.query NOT LIKE 'BEGIN%' AND s.query <> 'COMMIT' AND s.query NOT LIKE 'SET LOCAL%'), 0)::bigint
            FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
            WHERE d.datname = $1 AND s.toplevel"#;
        let row = observer.query_one(counts, &[&database]).await.unwrap();
        Self { beats: row.get(0), sweeps: row.get(1), all: row.get(2) }
    }
}

/// One worker that leads and one that does not; one has a slot and the other a thousand.
#[tokio::test]
async fn workers_without_work_cost_a_statement_a_second_and_the_leader_two() {
    let (idle, other) = (database().await, database().await);
    let observer = other.connect().await.unwrap();
    let loaded = "SELECT 'pg_stat_statements' = ANY (string_to_array(current_setting('shared_preload_libraries'), ','))";
    if !observer.query_one(loaded, &[]).await.unwrap().get::<_, bool>(0) {
        // The server came without the library that counts.
        return;
    }
    observer.batch_execute("CREATE EXTENSION pg_stat_statements").await.unwrap();
    let workers = [start(&idle, 1).await, start(&idle, 1_000).await];
    let count = async || Statements::count(&observer, idle.name()).await;
    // Both beat at once when they start; by their third beat they are quiet, and the leader knows that its looks are cheap.
    wait_until("both have begun, and one leads", PATIENCE, async || {
        let now = count().await;
        now.beats >= 6 && now.sweeps > 0
    })
    .await;
    let (begun, before) = (Instant::now(), count().await);
    wait_until("four more beats", PATIENCE, async || count().await.beats >= before.beats + 4).await;
    let after = count().await;
    let seconds = i64::try_from(begun.elapsed().as_secs()).unwrap() + 1;
    let (sweeps, all) = (after.sweeps - before.sweeps, after.all - before.all);
    assert!(sweeps > 0, "one leads");
    assert!(sweeps <= seconds + 1, "the leader looked {sweeps} times in {seconds} s");
    assert!(all - sweeps <= 2 * seconds, "two workers sent {} statements in {seconds} s", all - sweeps);
    for (_, worker) in workers {
        worker.stop();
        worker.join().await.unwrap();
    }
}
