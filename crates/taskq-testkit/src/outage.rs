//! What can go wrong inside a server: sessions that end, and a server that only reads.

use std::time::Duration;

use tokio_postgres::Client;

use crate::cluster::{Cluster, DatabaseError, check_name, connect, execute};
use crate::wait::try_wait_for;

/// How long a server may take to take a changed setting over.
const RELOAD: Duration = Duration::from_mins(1);

/// A server or a database that refuses to write. Dropping it makes it writable again and tells nobody of a failure.
#[must_use = "dropping it ends the fault"]
pub struct ReadOnly {
    cluster: Cluster,
    fault: Fault,
    ended: bool,
}

#[derive(Clone)]
enum Fault {
    Server,
    Database(String),
}

impl Cluster {
    /// Ends every other session in `database`; returns how many there were.
    ///
    /// # Errors
    ///
    /// The name cannot be used, or the server refuses.
    pub async fn terminate_backends(&self, database: &str) -> Result<u64, DatabaseError> {
        check_name(database)?;
        terminate(&self.connect().await?, database).await
    }

    /// Makes transactions on the whole server read-only, those of existing sessions included.
    ///
    /// For a server of one's own: every database is concerned. A session that has set
    /// `default_transaction_read_only` itself, or asks for a transaction that writes, is not held up.
    ///
    /// # Errors
    ///
    /// The server refuses, or does not take the setting over within a minute.
    pub async fn make_read_only(&self) -> Result<ReadOnly, DatabaseError> {
        self.begin(Fault::Server).await
    }

    /// Makes transactions in `database` read-only, and ends its sessions, which would go on writing.
    ///
    /// # Errors
    ///
    /// The name cannot be used, or the server refuses.
    pub async fn make_database_read_only(&self, database: &str) -> Result<ReadOnly, DatabaseError> {
        check_name(database)?;
        self.begin(Fault::Database(database.to_owned())).await
    }

    async fn begin(&self, fault: Fault) -> Result<ReadOnly, DatabaseError> {
        // Made first, so that a fault that is only half there ends too.
        let read_only = ReadOnly { cluster: self.clone(), fault, ended: false };
        read_only.fault.set(&read_only.cluster, "SET default_transaction_read_only = on").await?;
        Ok(read_only)
    }
}

impl ReadOnly {
    /// Makes it writable again. Sessions in a database that was read-only are ended, since they would stay so.
    ///
    /// # Errors
    ///
    /// The server refuses or is not reached.
    ///
    /// # Cancel safety
    ///
    /// It becomes writable all the same.
    pub async fn end(mut self) -> Result<(), DatabaseError> {
        let result = self.fault.reset(&self.cluster).await;
        self.ended = result.is_ok();
        result
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let (cluster, fault) = (self.cluster.clone(), self.fault.clone());
        // A thread of its own, since the caller's may be one that drives a runtime and must not wait for another.
        let ending = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(fault.reset(&cluster)))
        });
        let _ = ending.join();
    }
}

impl Fault {
    async fn reset(&self, cluster: &Cluster) -> Result<(), DatabaseError> {
        self.set(cluster, "RESET default_transaction_read_only").await
    }

    async fn set(&self, cluster: &Cluster, change: &str) -> Result<(), DatabaseError> {
        let client = cluster.connect().await?;
        execute(&client, "SET default_transaction_read_only = off").await?;
        match self {
            Self::Server => {
                execute(&client, &format!("ALTER SYSTEM {change}")).await?;
                execute(&client, "SELECT pg_reload_conf()").await?;
                let expected = if change.starts_with("RESET") { "off" } else { "on" };
                until_new_sessions_say(cluster, expected).await
            }
            Self::Database(database) => {
                execute(&client, &format!("ALTER DATABASE \"{database}\" {change}")).await?;
                terminate(&client, database).await.map(drop)
            }
        }
    }
}

async fn terminate(client: &Client, database: &str) -> Result<u64, DatabaseError> {
    let query = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                 WHERE datname = $1 AND pid <> pg_backend_pid()";
    let ended = client.query_one(query, &[&database]).await;
    let ended = ended.map_err(|source| DatabaseError::Server {
        action: format!("cannot end the sessions of {database}"),
        source,
    })?;
    Ok(ended.get::<_, i64>(0).unsigned_abs())
}

/// The server reads its files some time after it was asked to.
async fn until_new_sessions_say(cluster: &Cluster, expected: &str) -> Result<(), DatabaseError> {
    let says = async || {
        let client = connect(cluster.dsn()).await.ok()?;
        let row =
            client.query_one("SELECT current_setting('default_transaction_read_only')", &[]).await.ok()?;
        (row.get::<_, &str>(0) == expected).then_some(())
    };
    try_wait_for(RELOAD, says).await.ok_or(DatabaseError::Reload)
}
