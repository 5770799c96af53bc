//! A server as a place for databases.

use std::error::Error;
use std::sync::Arc;

use tokio_postgres::{Client, NoTls};

/// A PostgreSQL server, known by the DSN of its maintenance database. Cheap to clone; holds no connection.
#[derive(Clone)]
pub struct Cluster {
    dsn: Arc<str>,
}

/// A database could not be made, changed or removed.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The name or template key cannot be used as it stands.
    #[error("database name or key {0:?} must be 1 to 40 of a-z, 0-9 and _")]
    Name(String),
    /// The server refused, or was not reached.
    #[error("{action}")]
    Server {
        /// What was tried.
        action: String,
        /// What the driver said.
        source: tokio_postgres::Error,
    },
    /// The caller's function that fills a template failed; the template is not used.
    #[error("cannot prepare the template database")]
    Prepare(#[source] Box<dyn Error + Send + Sync>),
    /// The server did not take a changed setting over in time.
    #[error("the server did not take its changed settings over")]
    Reload,
    /// The operating system's random source failed.
    #[error("cannot make up a database name")]
    Random(#[source] std::io::Error),
}

impl Cluster {
    /// The server that `dsn` leads to, a URL or `key=value` pairs, as a role that may create databases.
    pub fn at(dsn: impl Into<Arc<str>>) -> Self {
        Self { dsn: dsn.into() }
    }

    /// How to connect to the maintenance database.
    pub fn dsn(&self) -> &str {
        &self.dsn
    }

    /// How to connect to `database` on the same server.
    pub fn dsn_of(&self, database: &str) -> String {
        let Some(authority) = self.dsn.find("://").map(|scheme| scheme + 3) else {
            // Of repeated keys the last one counts.
            return format!("{} dbname={database}", self.dsn);
        };
        let (address, parameters) = self.dsn.split_once('?').unwrap_or((&self.dsn, ""));
        let server = address[authority..].find('/').map_or(address, |path| &address[..authority + path]);
        let separator = if parameters.is_empty() { "" } else { "?" };
        format!("{server}/{database}{separator}{parameters}")
    }

    /// Makes an empty database that stays until it is dropped or the server ends; returns its DSN.
    ///
    /// # Errors
    ///
    /// The name cannot be used or is taken, or the server refuses.
    pub async fn create_database(&self, name: &str) -> Result<String, DatabaseError> {
        check_name(name)?;
        let client = self.connect().await?;
        execute(&client, &format!("CREATE DATABASE \"{name}\" TEMPLATE template0")).await?;
        Ok(self.dsn_of(name))
    }

    /// Drops a database and ends the sessions in it. One that does not exist is no error.
    ///
    /// # Errors
    ///
    /// The name cannot be used, or the server refuses.
    pub async fn drop_database(&self, name: &str) -> Result<(), DatabaseError> {
        check_name(name)?;
        let client = self.connect().await?;
        execute(&client, &format!("DROP DATABASE IF EXISTS \"{name}\" WITH (FORCE)")).await
    }

    /// A connection to the maintenance database.
    pub(crate) async fn connect(&self) -> Result<Client, DatabaseError> {
        connect(&self.dsn).await
    }
}

/// Connects, and drives the connection on the current runtime until the client is dropped.
pub(crate) async fn connect(dsn: &str) -> Result<Client, DatabaseError> {
    let (client, connection) = tokio_postgres::connect(dsn, NoTls).await.map_err(|source| {
        DatabaseError::Server { action: "cannot connect to PostgreSQL".to_owned(), source }
    })?;
    tokio::spawn(async move {
        // Whoever uses the client gets the error.
        let _ = connection.await;
    });
    Ok(client)
}

/// Runs one statement.
pub(crate) async fn execute(client: &Client, statement: &str) -> Result<(), DatabaseError> {
    let failed = |source| DatabaseError::Server { action: format!("failed: {statement}"), source };
    client.batch_execute(statement).await.map_err(failed)
}

/// Allows what needs no quoting anywhere, and leaves room for a prefix within PostgreSQL's 63 bytes.
pub(crate) fn check_name(name: &str) -> Result<(), DatabaseError> {
    let valid = (1..=40).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
    if valid { Ok(()) } else { Err(DatabaseError::Name(name.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_takes_the_place_of_the_one_in_the_dsn() {
        let dsn = |of: &str| Cluster::at(of).dsn_of("jobs");
        assert_eq!(dsn("postgres://u:p@127.0.0.1:5432/postgres"), "postgres://u:p@127.0.0.1:5432/jobs");
        assert_eq!(dsn("postgresql://host/a?sslmode=disable"), "postgresql://host/jobs?sslmode=disable");
        assert_eq!(dsn("postgres://host?options=-c%20a=/b"), "postgres://host/jobs?options=-c%20a=/b");
        assert_eq!(dsn("host=/tmp dbname=postgres"), "host=/tmp dbname=postgres dbname=jobs");
    }

    #[test]
    fn names_that_would_need_quoting_are_refused() {
        for name in ["", "a-b", "A", "a\"b", "a b", &"a".repeat(41)] {
            assert!(matches!(check_name(name), Err(DatabaseError::Name(_))), "{name:?}");
        }
        assert!(check_name("jobs_2").is_ok());
    }
}
