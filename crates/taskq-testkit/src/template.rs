//! A database for each test, copied from one that was prepared once.

use std::error::Error;

use tokio_postgres::Client;

use crate::cluster::{Cluster, DatabaseError, check_name, connect, execute};
use crate::random;

/// A prepared database to make others from.
#[derive(Clone)]
pub struct Template {
    cluster: Cluster,
    name: String,
}

/// A database of one test. Dropping it drops the database, together with every session in it.
pub struct TestDatabase {
    cluster: Cluster,
    name: String,
    dsn: String,
}

impl Cluster {
    /// The template named by `key`; `prepare` fills it (creates the schema, say) if the server does not have it yet.
    ///
    /// Once a server, whatever the number of threads and processes that ask at the same time: one prepares, the others
    /// wait. `prepare` gets the DSN of an empty database. A preparation that fails or dies half-way is started afresh by
    /// the next caller. The key must change when what `prepare` does changes, if the server outlives the change.
    ///
    /// # Errors
    ///
    /// The key is not 1 to 40 of `a-z`, `0-9` and `_`; `prepare` fails; the server refuses.
    pub async fn template<E>(
        &self,
        key: &str,
        prepare: impl AsyncFnOnce(String) -> Result<(), E>,
    ) -> Result<Template, DatabaseError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        check_name(key)?;
        let name = format!("template_{key}");
        let client = self.connect().await?;
        if !exists(&client, &name).await? {
            // Held by the session, so a caller that dies lets the next one in.
            execute(
                &client,
                &format!("SELECT pg_advisory_lock(hashtext('taskq template'), hashtext('{key}'))"),
            )
            .await?;
            if !exists(&client, &name).await? {
                self.build(&client, &name, prepare).await?;
            }
        }
        Ok(Template { cluster: self.clone(), name })
    }

    /// An empty database for one test.
    ///
    /// # Errors
    ///
    /// The server refuses.
    pub async fn empty_database(&self) -> Result<TestDatabase, DatabaseError> {
        self.copy_of("template0").await
    }

    /// The template gets its name last: one that has the name is complete.
    async fn build<E>(
        &self,
        client: &Client,
        name: &str,
        prepare: impl AsyncFnOnce(String) -> Result<(), E>,
    ) -> Result<(), DatabaseError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let unfinished = format!("unfinished_{name}");
        execute(client, &format!("DROP DATABASE IF EXISTS \"{unfinished}\" WITH (FORCE)")).await?;
        execute(client, &format!("CREATE DATABASE \"{unfinished}\" TEMPLATE template0")).await?;
        prepare(self.dsn_of(&unfinished)).await.map_err(|error| DatabaseError::Prepare(error.into()))?;

        // A database with sessions in it can be neither renamed nor copied; some may still be closing.
        execute(client, &format!("ALTER DATABASE \"{unfinished}\" ALLOW_CONNECTIONS false")).await?;
        let end = format!(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '{unfinished}'"
        );
        execute(client, &end).await?;
        execute(client, &format!("ALTER DATABASE \"{unfinished}\" RENAME TO \"{name}\"")).await
    }

    async fn copy_of(&self, template: &str) -> Result<TestDatabase, DatabaseError> {
        let name = format!("test_{}", random::token().map_err(DatabaseError::Random)?);
        let client = self.connect().await?;
        execute(&client, &format!("CREATE DATABASE \"{name}\" TEMPLATE \"{template}\"")).await?;
        Ok(TestDatabase { cluster: self.clone(), dsn: self.dsn_of(&name), name })
    }
}

impl Template {
    /// A fresh copy for one test.
    ///
    /// # Errors
    ///
    /// The server refuses.
    pub async fn database(&self) -> Result<TestDatabase, DatabaseError> {
        self.cluster.copy_of(&self.name).await
    }
}

impl TestDatabase {
    /// How to connect to the database, as superuser.
    pub fn dsn(&self) -> &str {
        &self.dsn
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server that the database is on.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// A new connection, driven on the current runtime until the client is dropped.
    ///
    /// # Errors
    ///
    /// The server is not reached.
    pub async fn connect(&self) -> Result<Client, DatabaseError> {
        connect(&self.dsn).await
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let (cluster, name) = (self.cluster.clone(), self.name.clone());
        // A thread of its own, since the caller's may be one that drives a runtime and must not wait for another. Best
        // effort: what cannot be dropped goes away with the server.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(cluster.drop_database(&name)))
        });
        let _ = dropping.join();
    }
}

async fn exists(client: &Client, database: &str) -> Result<bool, DatabaseError> {
    let query = "SELECT 1 FROM pg_catalog.pg_database WHERE datname = $1";
    let found = client.query_opt(query, &[&database]).await;
    found
        .map(|row| row.is_some())
        .map_err(|source| DatabaseError::Server { action: "cannot list databases".to_owned(), source })
}
