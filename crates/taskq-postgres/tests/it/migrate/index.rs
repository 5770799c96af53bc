//! Indexes that are built beside the traffic, and what is left when a build is cut off.

use taskq_postgres::{MigrateError, Migrator};
use taskq_testkit::{TestDatabase, wait_until};
use tokio_postgres::Client;

use super::{FIRST, SECOND, TABLE, psql, run, small, steps};
use crate::database::{PATIENCE, client, empty};

const BUILD: &str = "-- taskq: no-transaction
    CREATE INDEX CONCURRENTLY IF NOT EXISTS t_a ON \"{schema}\".t (a);";

/// A table with an index to come.
struct Scene {
    database: TestDatabase,
    admin: Client,
}

impl Scene {
    async fn new() -> Self {
        let database = empty().await;
        small(&database, &[(FIRST, TABLE)]).up(None).await.unwrap();
        let admin = client(database.dsn()).await;
        Self { database, admin }
    }

    fn migrator(&self) -> Migrator {
        small(&self.database, &[(FIRST, TABLE), (SECOND, BUILD)])
    }

    /// Whether the index is there, and whether it is of use; which it is.
    async fn index(&self) -> Option<(bool, u32)> {
        let sql =
            "SELECT i.indisvalid, i.indexrelid FROM pg_index i WHERE i.indexrelid = to_regclass('taskq.t_a')";
        self.admin.query_opt(sql, &[]).await.unwrap().map(|row| (row.get(0), row.get(1)))
    }

    /// Cuts a build off while it waits for a transaction that writes, which lets others go on; leaves an invalid index.
    async fn cut_off(&self) {
        let writer = client(self.database.dsn()).await;
        writer.batch_execute("BEGIN; INSERT INTO taskq.t VALUES (1)").await.unwrap();
        let migrator = self.migrator();
        let running = tokio::spawn(async move { migrator.up(None).await });
        wait_until("the build has begun", PATIENCE, async || self.index().await.is_some()).await;
        // It holds up nobody.
        self.admin.batch_execute("INSERT INTO taskq.t VALUES (2)").await.unwrap();
        let end = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'taskq:migrate'";
        self.admin.query(end, &[]).await.unwrap();
        let error = running.await.unwrap().unwrap_err();
        let MigrateError::Statement { name, sqlstate, .. } = &error else { panic!("{error}") };
        assert_eq!((name.as_str(), sqlstate.as_str()), (SECOND, "57014"));
        writer.batch_execute("COMMIT").await.unwrap();
        assert!(matches!(self.index().await, Some((false, _))), "a build that was cut off leaves its index");
    }
}

#[tokio::test]
async fn what_a_build_left_that_was_cut_off_is_built_anew() {
    let scene = Scene::new().await;
    scene.cut_off().await;
    let (_, left) = scene.index().await.unwrap();
    assert_eq!(steps(&scene.migrator(), None).await, [SECOND]);
    let (is_valid, built) = scene.index().await.unwrap();
    assert!(is_valid && built != left, "the index is another, and of use");
    assert_eq!(scene.migrator().verify().await.unwrap(), []);
}

#[tokio::test]
async fn an_index_that_is_whole_is_not_built_again() {
    let scene = Scene::new().await;
    // As by hand before the migration, or by a run that ended before it was noted.
    scene.admin.batch_execute("CREATE INDEX CONCURRENTLY t_a ON taskq.t (a)").await.unwrap();
    let before = scene.index().await;
    assert_eq!(steps(&scene.migrator(), None).await, [SECOND]);
    assert_eq!(scene.index().await, before);
}

#[tokio::test]
async fn the_printed_script_builds_it_anew_as_well() {
    let scene = Scene::new().await;
    scene.cut_off().await;
    let script = scene.migrator().sql(None).await.unwrap();
    assert!(script.contains("\\gexec") && script.contains("SET lock_timeout = '0'"), "{script}");
    let Some(psql) = psql() else { return };
    let dsn = scene.database.dsn().to_owned();
    let output = tokio::task::spawn_blocking(move || run(&psql, &dsn, &script)).await.unwrap();
    assert!(output.is_ok(), "{output:?}");
    assert!(matches!(scene.index().await, Some((true, _))));
    assert_eq!(scene.migrator().verify().await.unwrap(), []);
}
