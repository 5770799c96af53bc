//! A migration that needs a table which a long reader holds, while jobs are enqueued.

use taskq_core::model::{ActorName, Json, NewJob, PAYLOAD_LIMIT, QueueName};
use taskq_core::store::Store;
use taskq_postgres::MigrationSet;
use taskq_testkit::wait_until;

use super::upgrade::files;
use super::{migrator, steps};
use crate::database::{PATIENCE, client, migrated, store};

const ADDED: &str = "01.00.00_99_pre_added.sql";

fn job() -> NewJob {
    let payload = Json::from_value(&1, PAYLOAD_LIMIT).unwrap();
    NewJob::new(QueueName::new("q").unwrap(), ActorName::new("a").unwrap(), payload)
}

/// Behind a request for an exclusive lock everybody queues, also those who would not have to wait for the reader.
#[tokio::test]
async fn a_long_reader_holds_up_the_migration_and_nobody_else() {
    let database = migrated().await;
    let store = store(&database).await;
    store.enqueue(vec![job()]).await.unwrap();
    let mut migrations = files("migrations");
    let add = "ALTER TABLE \"{schema}\".jobs ADD COLUMN added integer;";
    migrations.push((ADDED.to_owned(), add.to_owned()));
    let set = MigrationSet::new(env!("CARGO_PKG_VERSION"), migrations, files("functions")).unwrap();
    let migrator = migrator(&database).with_set(set);

    let reader = client(database.dsn()).await;
    reader.batch_execute("BEGIN; SELECT FROM taskq.jobs").await.unwrap();
    let later = migrator.clone();
    let running = tokio::spawn(async move { later.up(None).await.unwrap().steps });
    let admin = client(database.dsn()).await;
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'taskq.jobs'::regclass
        AND mode = 'AccessExclusiveLock'";
    for round in 0..3 {
        wait_until("the migration waits for the table", PATIENCE, async || {
            admin.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 1
        })
        .await;
        // It queues behind the migration, and must not wait for the reader, which ends after this loop.
        store.enqueue(vec![job()]).await.unwrap_or_else(|error| panic!("in round {round}: {error}"));
    }
    assert!(!running.is_finished(), "the reader still holds the table");
    reader.batch_execute("COMMIT").await.unwrap();
    assert_eq!(running.await.unwrap(), [ADDED]);
    store.enqueue(vec![job()]).await.unwrap();
    assert!(steps(&migrator, None).await.is_empty());
}

#[tokio::test]
async fn nothing_that_is_printed_waits_long_for_a_lock() {
    let database = crate::database::empty().await;
    let script = migrator(&database).sql(None).await.unwrap();
    assert_eq!(
        script.matches("BEGIN;\nSET LOCAL lock_timeout = '500ms';\n").count(),
        script.matches("\nBEGIN;\n").count()
    );
}
