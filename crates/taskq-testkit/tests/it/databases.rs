//! Templates and the databases made from them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use taskq_testkit::{Cluster, DatabaseError, TestDatabase, shared_server};

async fn fill(dsn: String) -> Result<(), tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(&dsn, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute("CREATE TABLE filled AS SELECT 42 AS answer").await
}

async fn answer(database: &TestDatabase) -> i32 {
    let client = database.connect().await.unwrap();
    client.query_one("SELECT answer FROM filled", &[]).await.unwrap().get(0)
}

async fn exists(cluster: &Cluster, name: &str) -> bool {
    let (client, connection) = tokio_postgres::connect(cluster.dsn(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.query_opt("SELECT 1 FROM pg_database WHERE datname = $1", &[&name]).await.unwrap().is_some()
}

/// The server may be shared with other runs of this test, and a template is made once a server.
fn unused_key(what: &str) -> String {
    format!("{what}_{}", std::process::id())
}

#[tokio::test]
async fn many_that_ask_at_once_get_one_template() {
    let cluster = shared_server().await;
    let (key, prepared) = (unused_key("once"), Arc::new(AtomicUsize::new(0)));
    let callers: Vec<_> = (0..6)
        .map(|_| {
            let (key, prepared) = (key.clone(), Arc::clone(&prepared));
            // A thread and a runtime each, as the tests of one binary have.
            std::thread::spawn(move || {
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
                    let template = cluster.template(&key, async |dsn| {
                        prepared.fetch_add(1, Ordering::SeqCst);
                        fill(dsn).await
                    });
                    let database = template.await.unwrap().database().await.unwrap();
                    assert_eq!(answer(&database).await, 42);
                    database.name().to_owned()
                })
            })
        })
        .collect();
    let mut names: Vec<String> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 6, "a database each");
    assert_eq!(prepared.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_failed_preparation_is_reported_and_done_afresh() {
    let cluster = shared_server().await;
    let key = unused_key("failing");
    let half_done = cluster.template(&key, async |dsn| {
        fill(dsn).await?;
        Err::<(), Box<dyn std::error::Error + Send + Sync>>("no more".into())
    });
    assert!(matches!(half_done.await, Err(DatabaseError::Prepare(error)) if error.to_string() == "no more"));

    let database = cluster.template(&key, fill).await.unwrap().database().await.unwrap();
    assert_eq!(answer(&database).await, 42);
}

#[tokio::test]
async fn a_test_database_goes_with_its_value_even_while_it_is_used() {
    let cluster = shared_server().await;
    let database = cluster.empty_database().await.unwrap();
    let name = database.name().to_owned();
    let client = database.connect().await.unwrap();
    client.batch_execute("BEGIN; CREATE TABLE in_progress ()").await.unwrap();
    assert!(exists(cluster, &name).await);

    drop(database);
    assert!(!exists(cluster, &name).await);
}

#[tokio::test]
async fn a_named_database_stays_until_it_is_dropped() {
    let cluster = shared_server().await;
    let name = unused_key("named");
    let dsn = cluster.create_database(&name).await.unwrap();
    drop(tokio_postgres::connect(&dsn, tokio_postgres::NoTls).await.unwrap());
    assert!(
        matches!(cluster.create_database(&name).await, Err(DatabaseError::Server { .. })),
        "the name is taken"
    );

    cluster.drop_database(&name).await.unwrap();
    cluster.drop_database(&name).await.unwrap();
    assert!(!exists(cluster, &name).await);
    assert!(matches!(cluster.create_database("a\"b").await, Err(DatabaseError::Name(_))));
}
