//! Which functions a call of the store asks for, and how often, as the server counts them.

use std::time::Duration;

use taskq_core::model::{ActorName, Json, NewJob, PAYLOAD_LIMIT, QueueName, Schedule};
use taskq_core::store::Store;
use taskq_postgres::{ConnectOptions, PostgresStore};
use taskq_testkit::wait_until;

use crate::connect::{as_role, sessions};
use crate::database::{PATIENCE, client, migrated};

fn job(n: usize) -> NewJob {
    let payload = Json::from_value(&n, PAYLOAD_LIMIT).unwrap();
    NewJob::new(QueueName::new("q").unwrap(), ActorName::new("a").unwrap(), payload)
}

#[tokio::test]
async fn an_enqueue_is_one_call_of_one_function_and_many_jobs_are_too() {
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    let config: tokio_postgres::Config = database.dsn().parse().unwrap();
    let password = config.get_password().map_or(b"none".as_slice(), |password| password);
    let dsn = as_role(&database, config.get_user().unwrap(), std::str::from_utf8(password).unwrap());
    let dsn = format!("{dsn} options='-c track_functions=pl'");
    let store = PostgresStore::connect(&dsn, ConnectOptions::new()).await.unwrap();
    for n in 0..10 {
        store.enqueue(vec![job(n)]).await.unwrap();
    }
    let later = NewJob { schedule: Schedule::After(Duration::from_hours(1)), ..job(10) };
    store.enqueue(vec![later]).await.unwrap();
    store.enqueue((0..20).map(job).collect()).await.unwrap();
    store.enqueue((0..1_000).map(job).collect()).await.unwrap();
    store.enqueue((0..2_000).map(job).collect()).await.unwrap();
    drop(store);
    // A session's figures are whole once it has ended.
    wait_until("the sessions end", PATIENCE, async || sessions(&database, &admin).await.is_empty()).await;

    let sql = "SELECT funcname::text, calls FROM pg_stat_user_functions
        WHERE funcname ~ '^(enqueue|prepare|check|document|staged|take)' ORDER BY 1";
    let rows = admin.query(sql, &[]).await.unwrap();
    let calls: Vec<(String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected = [
        // The one with a delay is no plain job; enqueue hands it on.
        ("check_jobs", 2),
        ("document_problem", 1),
        ("enqueue", 1),
        ("enqueue_answers", 1),
        ("enqueue_many", 2),
        ("enqueue_plain", 10),
        ("enqueue_staged", 2),
        ("prepare_staging", 1),
    ];
    let expected = expected.map(|(function, calls)| (function.to_owned(), calls));
    assert_eq!(calls, expected);
    let commits =
        "SELECT count(DISTINCT xmin::text)::int8 FROM taskq.jobs WHERE payload::int8 < 10 AND queue = 'q'";
    let jobs: i64 = admin.query_one("SELECT count(*) FROM taskq.jobs", &[]).await.unwrap().get(0);
    let commits: i64 = admin.query_one(commits, &[]).await.unwrap().get(0);
    // Of the single ones each has its own, of the others each call.
    assert_eq!((jobs, commits), (10 + 1 + 20 + 1_000 + 2_000, 10 + 3));
}
