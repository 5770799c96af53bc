//! The way in: a client of a database or of memory.

use std::ops::Deref;
use std::sync::Arc;

use taskq_core::client::Client;
use taskq_core::store::memory::{Clock, MemoryStore};
use taskq_core::store::{SchemaProblem, StoreError};
use taskq_postgres::{Applied, ConnectOptions, MigrateError, Migrator, PostgresStore, SchemaName};

/// A job system: enqueues jobs, waits for them, and is what workers are built on. It is a [`Client`] that knows
/// how to connect. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct TaskQ {
    client: Client,
}

/// Why no connection was made.
#[derive(Debug, thiserror::Error)]
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
    /// [`migrate`](Self::migrate).
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
        let store = PostgresStore::connect(url, options).await?;
        Ok(Self { client: Client::new(store) })
    }

    /// Makes a job system that lives and dies with the process, for tests.
    pub fn in_memory() -> Self {
        Self { client: Client::new(Arc::new(MemoryStore::new(Clock::system()))) }
    }

    /// Brings the default schema `taskq` of a database to what this version needs, both phases at once, as
    /// `taskq migrate up` does. Nothing happens where it is that already. For more, use a
    /// [`Migrator`](crate::migrate::Migrator).
    ///
    /// # Errors
    /// [`MigrateError`] says why not; a migration that failed was rolled back.
    pub async fn migrate(url: &str) -> Result<Applied, MigrateError> {
        Migrator::new(url, SchemaName::default())?.up(None).await
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

impl Deref for TaskQ {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
