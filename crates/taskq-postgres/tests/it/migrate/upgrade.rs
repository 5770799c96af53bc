//! Every state that a schema was ever in, brought to the present one.

use std::path::Path;

use taskq_postgres::MigrationSet;

use super::{contents, migrator, steps};
use crate::database::{client, empty};

/// The files of a directory of this crate, by name.
pub(super) fn files(directory: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql").join(directory);
    let mut files: Vec<_> = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn a_schema_of_any_state_becomes_what_a_fresh_one_is() {
    let fresh = empty().await;
    migrator(&fresh).up(None).await.unwrap();
    let expected = contents(&fresh).await;
    assert!(expected.len() > 200, "the catalog was read: {}", expected.len());

    let migrations = files("migrations");
    for count in 1..migrations.len() {
        let older = MigrationSet::new("0.0.1", migrations[..count].to_vec(), []).unwrap();
        let database = empty().await;
        migrator(&database).with_set(older).up(None).await.unwrap();
        // Jobs of that time, and what was told of them.
        let rows = "
            INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload)
            SELECT gen_random_uuid(), now(), now(), 'pending', 'q', 'a', '1' FROM generate_series(1, 3);
            INSERT INTO taskq.job_events (job_id, occurred_at, kind) SELECT id, now(), 'enqueued' FROM taskq.jobs;
            INSERT INTO taskq.queues (queue, updated_at) VALUES ('q', now());
            INSERT INTO taskq.workers (id, started_at, beat_at, lease_expires_at, queues, actors)
            VALUES (gen_random_uuid(), now(), now(), now(), '{q}', '{a}')";
        let admin = client(database.dsn()).await;
        admin.batch_execute(rows).await.unwrap();

        let current = migrator(&database);
        let done = steps(&current, None).await;
        assert_eq!(done.len(), migrations.len() - count + 1, "{done:?}");
        assert_eq!(current.verify().await.unwrap(), []);
        let (found, state) = (contents(&database).await, &migrations[count - 1].0);
        for (object, definition) in &expected {
            assert_eq!(found.get(object), Some(definition), "{object} after an upgrade from {state}");
        }
        let more: Vec<_> = found.keys().filter(|object| !expected.contains_key(*object)).collect();
        assert!(more.is_empty(), "left over after an upgrade from {state}: {more:?}");
        let counts = "SELECT (SELECT count(*) FROM taskq.jobs), (SELECT count(*) FROM taskq.job_events)";
        let row = admin.query_one(counts, &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (3, 3), "the rows are there");
        let claimed = "SELECT taskq.register_worker(w.id, '{q}', '{a}', '1 min', NULL),
            (SELECT count(*) FROM taskq.claim('{q}', 3, w.id, '1 min')) FROM (VALUES (gen_random_uuid())) w(id)";
        let row = admin.query_one(claimed, &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(1), 3, "the jobs are claimed");
    }
}
