//! Where a benchmark runs: a server, and a scratch schema of its own on it.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use taskq::migrate::Migrator;
use taskq::store::{PostgresStore, StoreError};
use taskq::{Client, ConnectOptions, SchemaName};
use taskq_testkit::{KeptServer, Options, PrivateServer};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, NoTls};

use super::clock::ServerCpu;
use crate::config::{DatabaseSettings, GivenDatabase};
use crate::exit::{Failure, with_sources};

/// The schema unless another is named.
const SCHEMA: &str = "taskq_bench";
/// How the schema of a benchmark is known again.
const MARK: &str = "scratch schema of taskq bench: dropped by the next run";
/// The queues of benchmarks begin so.
pub(super) const QUEUE: &str = "bench";

/// What a private server is set to: as durable as PostgreSQL is by itself, and large enough that no checkpoint falls
/// into a run.
const PRIVATE: [(&str, &str); 5] = [
    ("shared_buffers", "512MB"),
    ("max_wal_size", "4GB"),
    ("min_wal_size", "1GB"),
    ("checkpoint_timeout", "30min"),
    ("pg_stat_statements.track", "all"),
];

/// The settings that a reader of figures must know.
const SETTINGS: [&str; 14] = [
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "wal_level",
    "wal_compression",
    "shared_buffers",
    "max_wal_size",
    "checkpoint_timeout",
    "autovacuum",
    "jit",
    "max_connections",
    "shared_preload_libraries",
    "data_checksums",
];

/// The server and what it is set to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ServerFacts {
    version: String,
    private: bool,
    schema: String,
    /// The server's clock when the benchmark began.
    began_at: String,
    settings: BTreeMap<String, String>,
}

impl ServerFacts {
    /// Says it in one line.
    pub(super) fn line(&self) -> String {
        let settings = ["fsync", "synchronous_commit", "shared_buffers", "max_wal_size", "jit"]
            .map(|name| format!("{name} = {}", self.settings.get(name).map_or("?", String::as_str)));
        let whose = if self.private { "a private server" } else { "the server of the DSN" };
        format!("PostgreSQL {} ({whose}), {}", self.version, settings.join(", "))
    }
}

/// A server with a migrated scratch schema.
pub(crate) struct Scene {
    server: Option<PrivateServer>,
    database: DatabaseSettings,
    /// Holds the lock that keeps a second benchmark out of the schema.
    control: Session,
    /// Further schemas, held by the lock of the connection that they were made through.
    annexes: Mutex<Vec<Arc<Session>>>,
    facts: ServerFacts,
    cpu: Option<ServerCpu>,
    walinspect: Option<String>,
    statements: Option<String>,
}

impl Scene {
    /// Takes the private server, or goes to the one that the DSN names, and makes the scratch schema.
    ///
    /// # Errors
    /// A schema of this name exists that no benchmark made, or a benchmark runs in it: nothing is touched then.
    pub(crate) async fn open(server: Option<PrivateServer>, given: &GivenDatabase) -> Result<Self, Failure> {
        let database = settings(server.as_ref(), given)?;
        let migrator = Migrator::new(&database.dsn, database.schema.clone()).map_err(migration)?;
        // The library's own words for whatever is wrong with the DSN or the server.
        migrator.status().await.map_err(migration)?;
        let control = Session::open(&database).await?;
        make_schema(&control, &database).await?;
        if server.is_some() {
            // A server without one of them has less to tell.
            for extension in ["pg_walinspect", "pg_stat_statements"] {
                let _ =
                    control.run(&format!("CREATE EXTENSION IF NOT EXISTS {extension} SCHEMA public")).await;
            }
        }
        let facts = facts(&control, server.is_some()).await?;
        let row = control.one("SELECT pg_backend_pid(), inet_client_port()", &[]).await?;
        let cpu = row.get::<_, Option<i32>>(1).and_then(|port| ServerCpu::find(row.get(0), port));
        let walinspect = control.extension("pg_walinspect", "pg_get_wal_stats").await?;
        let statements = control.extension("pg_stat_statements", "pg_stat_statements").await?;
        Ok(Self { server, database, control, annexes: Mutex::default(), facts, cpu, walinspect, statements })
    }

    /// The options of a private server.
    pub(crate) fn private(options: Options) -> Options {
        let options = options.preload("pg_stat_statements");
        PRIVATE.iter().fold(options, |options, (name, value)| options.setting(*name, *value))
    }

    /// The server and what it is set to.
    pub(super) fn facts(&self) -> &ServerFacts {
        &self.facts
    }

    /// Whether the server is the benchmark's own.
    pub(super) fn is_private(&self) -> bool {
        self.server.is_some()
    }

    /// A connection that nothing is measured on.
    pub(super) fn control(&self) -> &Session {
        &self.control
    }

    /// The processor time of the server, where it can be read.
    pub(super) fn cpu(&self) -> Option<ServerCpu> {
        self.cpu
    }

    /// The function `pg_get_wal_stats`, with its schema, where the server has it.
    pub(super) fn walinspect(&self) -> Option<&str> {
        self.walinspect.as_deref()
    }

    /// The view `pg_stat_statements`, with its schema, where the server has it.
    pub(super) fn statements(&self) -> Option<&str> {
        self.statements.as_deref()
    }

    /// Where the database is.
    pub(super) fn database(&self) -> &DatabaseSettings {
        &self.database
    }

    /// Opens a connection for plain SQL.
    pub(super) async fn session(&self) -> Result<Session, Failure> {
        Session::open(&self.database).await
    }

    /// Opens a connection that listens, and tells of each notification.
    pub(super) async fn listener(
        &self,
        channel: &str,
    ) -> Result<(Session, mpsc::UnboundedReceiver<()>), Failure> {
        Session::listen(&self.database, channel).await
    }

    /// Makes one more scratch schema, for a benchmark that compares tables with each other.
    pub(super) async fn annex(&self, name: &str) -> Result<Annex, Failure> {
        let schema = SchemaName::new(&format!("{}_{name}", self.database.schema))
            .map_err(|error| Failure::usage(format!("--schema: {error}")))?;
        let database = DatabaseSettings { schema, ..self.database.clone() };
        let control = Arc::new(Session::open(&database).await?);
        make_schema(&control, &database).await?;
        self.annexes.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&control));
        Ok(Annex { database, control })
    }

    /// Opens a client as programs do.
    pub(super) async fn client(&self) -> Result<Client, Failure> {
        let options = ConnectOptions::new().schema(self.database.schema.clone()).mode(self.database.mode);
        Ok(Client::new(PostgresStore::connect(&self.database.dsn, options).await?))
    }

    /// Empties the tables that grow, so that every run begins alike.
    pub(super) async fn empty(&self) -> Result<(), Failure> {
        self.control
            .run(r#"TRUNCATE "{schema}".jobs, "{schema}".job_attempts, "{schema}".job_events, "{schema}".workers"#)
            .await
    }

    /// Drops the schema or the whole private server; with `keep`, says where they are left.
    pub(crate) async fn close(self, keep: bool) -> Result<Option<Left>, Failure> {
        let failed = |error| Failure::failed(with_sources(&error));
        match (self.server, keep) {
            (Some(server), true) => {
                let KeptServer { dsn, stop_command, .. } = server.keep().await.map_err(failed)?;
                Ok(Some(Left { dsn: Some(dsn), schema: self.facts.schema, stop_command: Some(stop_command) }))
            }
            (Some(server), false) => server.stop().await.map_err(failed).map(|()| None),
            (None, true) => Ok(Some(Left { dsn: None, schema: self.facts.schema, stop_command: None })),
            (None, false) => {
                let annexes = self.annexes.into_inner().unwrap_or_else(PoisonError::into_inner);
                for session in annexes.iter().map(AsRef::as_ref).chain([&self.control]) {
                    session.run(r#"DROP SCHEMA IF EXISTS "{schema}" CASCADE"#).await?;
                }
                Ok(None)
            }
        }
    }
}

/// One more scratch schema. It goes when the scene is closed.
pub(super) struct Annex {
    database: DatabaseSettings,
    /// A connection that nothing is measured on, which holds the schema's lock.
    control: Arc<Session>,
}

impl Annex {
    /// Begins anew: nothing is in the schema, and nothing is known of what was.
    pub(super) async fn renew(&self) -> Result<(), Failure> {
        make_schema(&self.control, &self.database).await
    }

    /// A connection that nothing is measured on.
    pub(super) fn control(&self) -> &Session {
        &self.control
    }

    /// Opens a connection for plain SQL.
    pub(super) async fn session(&self) -> Result<Session, Failure> {
        Session::open(&self.database).await
    }
}

/// What a benchmark leaves on purpose.
pub(crate) struct Left {
    /// How to connect to a private server.
    pub(crate) dsn: Option<String>,
    /// The schema.
    pub(crate) schema: String,
    /// What stops a private server.
    pub(crate) stop_command: Option<String>,
}

fn settings(server: Option<&PrivateServer>, given: &GivenDatabase) -> Result<DatabaseSettings, Failure> {
    let mut database = match server {
        Some(server) => crate::config::private_database(given.clone(), server.dsn())?,
        None => crate::config::database(given.clone())?,
    };
    if given.schema.is_none() {
        database.schema = SchemaName::new(SCHEMA).map_err(|error| Failure::failed(error.to_string()))?;
    }
    Ok(database)
}

/// Makes a schema that is the benchmark's own, in place of one that an earlier benchmark left.
async fn make_schema(control: &Session, database: &DatabaseSettings) -> Result<(), Failure> {
    claim_schema(control, &database.schema).await?;
    // Marked from the begin, so that what fails half-way is not left to a person.
    let create = format!(r#"CREATE SCHEMA "{{schema}}"; COMMENT ON SCHEMA "{{schema}}" IS '{MARK}'"#);
    control.run(&create).await?;
    let migrator = Migrator::new(&database.dsn, database.schema.clone()).map_err(migration)?;
    migrator.up(None).await.map(drop).map_err(migration)
}

/// Makes sure that the schema is a benchmark's to drop, and drops what an earlier one left.
async fn claim_schema(control: &Session, schema: &SchemaName) -> Result<(), Failure> {
    let lock = "SELECT pg_try_advisory_lock(hashtextextended('taskq:bench:' || $1, 0))";
    if !control.one(lock, &[&schema.as_str()]).await?.get::<_, bool>(0) {
        return Err(Failure::failed(format!("another benchmark runs in the schema \"{schema}\"")));
    }
    let find = "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = $1";
    let Some(found) = control.client.query_opt(find, &[&schema.as_str()]).await? else { return Ok(()) };
    let refuse = |why: &str| {
        let message = format!(
            "the schema \"{schema}\" {why}; name another with --schema, which the benchmark can drop"
        );
        Err(Failure::usage(message))
    };
    if found.get::<_, Option<&str>>(0) != Some(MARK) {
        return refuse("exists and no benchmark made it");
    }
    let jobs = "SELECT to_regclass(format('%I.jobs', $1::text)) IS NOT NULL";
    if control.one(jobs, &[&schema.as_str()]).await?.get::<_, bool>(0) {
        let foreign = format!(
            r#"SELECT EXISTS (SELECT FROM "{{schema}}".jobs WHERE NOT starts_with(queue, '{QUEUE}'))"#
        );
        if control.one(&foreign, &[]).await?.get::<_, bool>(0) {
            return refuse("was left by a benchmark and now holds other jobs");
        }
    }
    control.run(r#"DROP SCHEMA "{schema}" CASCADE"#).await
}

async fn facts(control: &Session, private: bool) -> Result<ServerFacts, Failure> {
    let query = "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY ($1)";
    let rows = control.client.query(query, &[&SETTINGS.as_slice()]).await?;
    let row = control
        .one("SELECT current_setting('server_version'), date_trunc('second', now())::text", &[])
        .await?;
    Ok(ServerFacts {
        version: row.get(0),
        private,
        schema: control.schema.to_string(),
        began_at: row.get(1),
        settings: rows.iter().map(|row| (row.get(0), row.get(1))).collect(),
    })
}

fn migration(error: taskq::migrate::MigrateError) -> Failure {
    match error {
        taskq::migrate::MigrateError::Store(error) => error.into(),
        taskq::migrate::MigrateError::Newer(problem) => StoreError::Schema(problem).into(),
        other => Failure::failed(with_sources(&other)),
    }
}

/// A connection for plain SQL, in which `{schema}` stands for the schema.
pub(super) struct Session {
    /// The driver's client.
    pub(super) client: tokio_postgres::Client,
    schema: SchemaName,
}

impl Session {
    async fn open(database: &DatabaseSettings) -> Result<Self, Failure> {
        let (client, connection) = tokio_postgres::connect(&database.dsn, NoTls).await?;
        tokio::spawn(async move {
            // Whoever uses the client gets the error.
            let _ = connection.await;
        });
        Ok(Self { client, schema: database.schema.clone() })
    }

    /// Opens a connection that listens, and tells of each notification.
    async fn listen(
        database: &DatabaseSettings,
        channel: &str,
    ) -> Result<(Self, mpsc::UnboundedReceiver<()>), Failure> {
        let (client, mut connection) = tokio_postgres::connect(&database.dsn, NoTls).await?;
        let (tell, told) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if matches!(message, AsyncMessage::Notification(_)) && tell.send(()).is_err() {
                    return;
                }
            }
        });
        client.batch_execute(&format!("LISTEN {channel}")).await?;
        Ok((Self { client, schema: database.schema.clone() }, told))
    }

    /// Opens a connection, runs `work` on it and drives it in the same task, so that no hop between threads is
    /// measured.
    pub(super) async fn alone<T>(
        database: &DatabaseSettings,
        work: impl AsyncFnOnce(&Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (client, connection) = tokio_postgres::connect(&database.dsn, NoTls).await?;
        let session = Self { client, schema: database.schema.clone() };
        tokio::select! {
            done = work(&session) => done,
            ended = connection => {
                ended?;
                Err(Failure::failed("the server closed the connection"))
            }
        }
    }

    /// Puts the schema's name where the text has `{schema}`.
    pub(super) fn sql(&self, text: &str) -> String {
        text.replace("{schema}", self.schema.as_str())
    }

    /// Runs statements without parameters.
    pub(super) async fn run(&self, text: &str) -> Result<(), Failure> {
        Ok(self.client.batch_execute(&self.sql(text)).await?)
    }

    /// Runs a query that answers one row.
    pub(super) async fn one(
        &self,
        text: &str,
        parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<tokio_postgres::Row, Failure> {
        Ok(self.client.query_one(&self.sql(text), parameters).await?)
    }

    /// Finds a function or view of an extension.
    async fn extension(&self, extension: &str, name: &str) -> Result<Option<String>, Failure> {
        let query = "SELECT format('%I.%I', n.nspname, $2::text) FROM pg_extension e
            JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = $1";
        let row = self.client.query_opt(query, &[&extension, &name]).await?;
        Ok(row.map(|row| row.get(0)))
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::failed(with_sources(&error))
    }
}
