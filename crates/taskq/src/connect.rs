//! The way in: a client of a database or of memory.

use std::error::Error as _;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use taskq_core::client::Client;
use taskq_core::store::memory::{Clock, MemoryStore};
use taskq_core::store::{SchemaProblem, StoreError};
use taskq_postgres::{Applied, ConnectOptions, MigrateError, Migrator, PostgresStore, SchemaName};

/// A job system: enqueues jobs, waits for them, and is what workers are built on. It is a [`Client`] that knows
/// how to connect. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct TaskQ {
    client: Client,
    /// Where the schema is; nothing in memory.
    origin: Option<Arc<Origin>>,
}

struct Origin {
    /// It may hold a password, and is never shown.
    url: String,
    schema: SchemaName,
}

/// Why no connection was made.
///
/// Its `Debug` form is its message with the reasons, since that is what a `main` prints that returns it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The DSN cannot be read, or asks for what is not supported.
    #[error("the DSN cannot be used")]
    Dsn(#[source] StoreError),
    /// The server cannot be reached.
    #[error("the server cannot be reached")]
    Unavailable(#[source] StoreError),
    /// The server refuses the connection: password, role, database or its settings.
    #[error("the server refuses the connection")]
    Refused(#[source] StoreError),
    /// The schema is missing, older or newer than this program.
    #[error(transparent)]
    Schema(SchemaProblem),
    /// The server answered with an error of another kind.
    #[error("the store cannot be opened")]
    Store(#[source] StoreError),
}

impl fmt::Debug for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut reason = self.source();
        while let Some(error) = reason {
            write!(f, ": {error}")?;
            reason = error.source();
        }
        Ok(())
    }
}

impl From<StoreError> for ConnectError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Schema(problem) => Self::Schema(problem),
            StoreError::Invalid { .. } | StoreError::Unsupported { .. } => Self::Dsn(error),
            StoreError::Unavailable { .. } => Self::Unavailable(error),
            StoreError::Refused { .. } => Self::Refused(error),
            _ => Self::Store(error),
        }
    }
}

impl TaskQ {
    /// Connects to the database that a URL (`postgres://user@host:port/database`) or a libpq string names, with
    /// the default schema `taskq`.
    ///
    /// # Errors
    /// [`ConnectError`] says why not. [`ConnectError::Schema`] asks for `taskq migrate up`, or
    /// [`migrate_url`](Self::migrate_url), or says that the program is older than the schema.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::connect_with(url, ConnectOptions::default()).await
    }

    /// Connects like [`connect`](Self::connect), with options such as another schema.
    ///
    /// # Errors
    /// [`ConnectError`] says why not.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn connect_with(url: &str, options: ConnectOptions) -> Result<Self, ConnectError> {
        let origin = Origin { url: url.to_owned(), schema: options.schema.clone() };
        let store = PostgresStore::connect(url, options).await?;
        Ok(Self { client: Client::new(store), origin: Some(Arc::new(origin)) })
    }

    /// Makes a job system that lives and dies with the process, for tests.
    pub fn in_memory() -> Self {
        Self { client: Client::new(Arc::new(MemoryStore::new(Clock::system()))), origin: None }
    }

    /// Brings the default schema `taskq` of a database to what this version needs, both phases at once, as
    /// `taskq migrate up` does: what a program calls before it [connects](Self::connect). Nothing happens where it is that
    /// already, and several may call it at once. For more, use a [`Migrator`](crate::migrate::Migrator).
    ///
    /// # Errors
    /// [`MigrateError`] says why not; a migration that failed was rolled back.
    ///
    /// # Cancel safety
    /// Safe to drop: what is being applied is rolled back.
    pub async fn migrate_url(url: &str) -> Result<Applied, MigrateError> {
        Migrator::new(url, SchemaName::default())?.up(None).await
    }

    /// Brings the schema that this one was connected to, to what this version needs, as [`migrate_url`](Self::migrate_url)
    /// does. One that is not yet what it must be is connected to with
    /// [`check_schema(false)`](ConnectOptions::check_schema). In memory there is nothing to do.
    ///
    /// # Errors
    /// [`MigrateError`] says why not; a migration that failed was rolled back.
    ///
    /// # Cancel safety
    /// Safe to drop: what is being applied is rolled back.
    pub async fn migrate(&self) -> Result<Applied, MigrateError> {
        match &self.origin {
            Some(origin) => Migrator::new(&origin.url, origin.schema.clone())?.up(None).await,
            None => Ok(Applied::default()),
        }
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

impl fmt::Debug for TaskQ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.origin.as_ref().map(|origin| &origin.schema);
        f.debug_struct("TaskQ").field("schema", &schema).finish_non_exhaustive()
    }
}

impl Deref for TaskQ {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
