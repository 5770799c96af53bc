//! Databases for tests: migrated once, copied for each test, with a clock that tests move.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use taskq_contract::Harness;
use taskq_core::store::{Store, Wake, Wakes};
use taskq_postgres::{ConnectOptions, MigrateError, Migrator, PostgresStore, SchemaName};
use taskq_testkit::{Cluster, TestDatabase, shared_pgbouncer, shared_server};
use tokio::sync::OnceCell;
use tokio::time::timeout;

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The store's clock, ahead of the real one by what a table says.
const CLOCK: &str = "
    CREATE TABLE taskq.test_clock (ahead interval NOT NULL);
    INSERT INTO taskq.test_clock VALUES ('0');
    CREATE OR REPLACE FUNCTION taskq.clock() RETURNS timestamptz LANGUAGE sql STABLE
    AS $$ SELECT pg_catalog.statement_timestamp() + (SELECT c.ahead FROM taskq.test_clock c) $$;
    CREATE OR REPLACE FUNCTION taskq.clock_now() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS $$ SELECT pg_catalog.clock_timestamp() + (SELECT c.ahead FROM taskq.test_clock c) $$;
";

/// Connects as a test does that sets the scene behind the store's back.
pub(crate) async fn client(dsn: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(dsn, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A database without a schema.
pub(crate) async fn empty() -> TestDatabase {
    shared_server().await.empty_database().await.unwrap()
}

/// A migrated database.
pub(crate) async fn migrated() -> TestDatabase {
    migrated_on(shared_server().await).await
}

/// A migrated database on a server of the test's own.
pub(crate) async fn migrated_on(server: &Cluster) -> TestDatabase {
    let template = server.template("postgres_migrated", migrate).await.unwrap();
    template.database().await.unwrap()
}

async fn migrate(dsn: String) -> Result<(), MigrateError> {
    Migrator::new(&dsn, SchemaName::default())?.up(None).await.map(drop)
}

/// Opens the store of a migrated database.
pub(crate) async fn store(database: &TestDatabase) -> Arc<PostgresStore> {
    connect(database.dsn()).await
}

/// Opens the store that a DSN names.
pub(crate) async fn connect(dsn: &str) -> Arc<PostgresStore> {
    PostgresStore::connect(dsn, ConnectOptions::new()).await.unwrap()
}

/// Waits for a hint and passes over others.
pub(crate) async fn hear(wakes: &mut Wakes, expected: &Wake) {
    let found = async {
        while let Some(wake) = wakes.next().await {
            if wake == *expected {
                return;
            }
        }
        panic!("the hints ended before {expected:?}");
    };
    assert!(timeout(PATIENCE, found).await.is_ok(), "{expected:?} did not come");
}

/// The DSN of a database as a role that is no superuser.
pub(crate) fn as_role(database: &TestDatabase, role: &str) -> String {
    let config: tokio_postgres::Config = database.dsn().parse().unwrap();
    let host = match &config.get_hosts()[0] {
        tokio_postgres::config::Host::Tcp(host) => host.clone(),
        #[cfg(unix)]
        tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
    };
    let (port, name) = (config.get_ports()[0], database.name());
    format!("host={host} port={port} user={role} password={PASSWORD} dbname={name}")
}

/// Opens the store as a role that is no superuser.
pub(crate) async fn connect_as(database: &TestDatabase, role: &str) -> Arc<PostgresStore> {
    connect(&as_role(database, role)).await
}

/// Makes a role that may log in, unless the server has it. Roles belong to the server, not to a database.
pub(crate) fn create_role(role: &str) -> String {
    format!(
        "DO $$ BEGIN CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}';
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;"
    )
}

/// The password of every role that a test makes.
const PASSWORD: &str = "secret";

/// A store on a fresh database with a clock of its own. Its role is a worker's; what only an operator may do, another does.
pub(crate) struct PostgresHarness {
    store: Arc<PostgresStore>,
    /// What hears of wake-ups, the same store or another.
    hearing: Arc<PostgresStore>,
    operator: OnceCell<Arc<PostgresStore>>,
    _wakes: Wakes,
    client: tokio_postgres::Client,
    database: TestDatabase,
}

async fn with_clock() -> TestDatabase {
    let prepare = async |dsn: String| {
        migrate(dsn.clone()).await.map_err(|error| error.to_string())?;
        let roles = [("taskq_behaviours", "worker"), ("taskq_behaviours_operator", "operator")].map(|(role, kind)| {
            format!(
                "{} SELECT taskq.grant_role('{role}', '{kind}'); GRANT SELECT ON taskq.test_clock TO {role};",
                create_role(role)
            )
        });
        let setup = format!("{CLOCK} {}", roles.concat());
        client(&dsn).await.batch_execute(&setup).await.map_err(|error| error.to_string())
    };
    let template = shared_server().await.template("postgres_clock", prepare).await.unwrap();
    template.database().await.unwrap()
}

async fn harness_of(
    database: TestDatabase,
    store: Arc<PostgresStore>,
    hearing: Arc<PostgresStore>,
    operator: OnceCell<Arc<PostgresStore>>,
) -> PostgresHarness {
    let mut wakes = hearing.wakes();
    hear(&mut wakes, &Wake::Everything).await;
    let client = client(database.dsn()).await;
    PostgresHarness { store, hearing, operator, _wakes: wakes, client, database }
}

/// A store that is connected to the server itself.
pub(crate) async fn harness() -> PostgresHarness {
    let database = with_clock().await;
    let store = connect_as(&database, "taskq_behaviours").await;
    harness_of(database, Arc::clone(&store), store, OnceCell::new()).await
}

/// A store behind a pooler in transaction mode, which it finds out by itself, and one beside it that hears. The pooler's
/// sessions are those of a superuser.
pub(crate) async fn pooled_harness() -> PostgresHarness {
    let database = with_clock().await;
    let dsn = shared_pgbouncer().await.dsn_of(database.name());
    let pooled = PostgresStore::connect(&dsn, ConnectOptions::new()).await.unwrap();
    let hearing = connect_as(&database, "taskq_behaviours").await;
    let operator = OnceCell::new_with(Some(Arc::clone(&pooled)));
    harness_of(database, pooled, hearing, operator).await
}

#[async_trait]
impl Harness for PostgresHarness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    fn wakes(&self) -> Wakes {
        self.hearing.wakes()
    }

    async fn operator(&self) -> Arc<dyn Store> {
        let connect = || connect_as(&self.database, "taskq_behaviours_operator");
        Arc::clone(self.operator.get_or_init(connect).await) as Arc<dyn Store>
    }

    async fn advance(&self, by: Duration) {
        let sql =
            format!("UPDATE taskq.test_clock SET ahead = ahead + interval '{} microseconds'", by.as_micros());
        self.client.batch_execute(&sql).await.unwrap();
    }

    async fn now(&self) -> Timestamp {
        let sql = "SELECT (extract(epoch FROM taskq.clock_now()) * 1000000)::bigint";
        let micros: i64 = self.client.query_one(sql, &[]).await.unwrap().get(0);
        Timestamp::from_microsecond(micros).unwrap()
    }
}
