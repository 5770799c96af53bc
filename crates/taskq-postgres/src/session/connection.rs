//! One open connection: its statements, the transactions on it, and what moves its messages.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OnceCell, OwnedRwLockWriteGuard, RwLock, watch};
use tokio::task::AbortHandle;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, CopyInSink, Notification, Row, Statement};

use crate::connect::Driver;
use crate::engine::Busy;
use crate::error::{self, Verdict};
use crate::role::Role;

/// A statement with the types of its parameters.
#[derive(Debug)]
pub(crate) struct Sql {
    text: String,
    types: Vec<Type>,
}

impl Sql {
    pub(crate) fn new(text: String, types: &[Type]) -> Self {
        Self { text, types: types.to_vec() }
    }
}

/// Called with every notification that the connection receives.
pub(crate) type OnNotification = Arc<dyn Fn(&Notification) + Send + Sync>;

/// An open connection and the statements prepared on it.
pub(crate) struct Connection {
    pub(super) client: Client,
    pub(super) role: Role,
    pub(super) major: u32,
    /// How each call begins in the pooled mode; nothing in the direct mode.
    pub(super) pooled: Option<String>,
    /// Whether the session has its staging table; nothing until somebody wants to know.
    pub(crate) staging: OnceCell<bool>,
    /// Held shared by single statements, and alone by a transaction, into which none of them may get.
    pub(super) turn: Arc<RwLock<()>>,
    pub(super) statements: Mutex<HashMap<String, Statement>>,
    pub(super) ended: watch::Receiver<bool>,
    pub(super) driver: AbortHandle,
}

impl Connection {
    /// Runs statements without parameters and without answers.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.client.batch_execute(sql).await
    }

    /// Waits until the connection has ended.
    pub(crate) async fn ended(&self) {
        // The sender ends with the driver, which is the same news.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }

    /// Whether any transaction may meet another session.
    pub(crate) const fn is_pooled(&self) -> bool {
        self.pooled.is_some()
    }

    pub(super) async fn query(
        &self,
        sql: &Sql,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        match self.query_prepared(sql, params).await {
            // Nothing has run yet: PostgreSQL refuses before it executes.
            Err(error) if error::judge(&error) == Verdict::Stale => {
                self.statements().remove(&sql.text);
                self.query_unnamed(sql, params).await
            }
            result => result,
        }
    }

    /// As [`query`](Self::query), in a transaction with a time limit.
    pub(super) async fn query_within(
        &self,
        sql: &Sql,
        params: &[&(dyn ToSql + Sync)],
        limit: Duration,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepared(sql).await?;
        let start = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = {}",
            limit.as_millis().max(1)
        );
        match self.transaction(&start, self.client.query(&statement, params)).await {
            Err(error) if error::judge(&error) == Verdict::Stale => {
                self.statements().remove(&sql.text);
                self.transaction(&start, self.query_unnamed(sql, params)).await
            }
            result => result,
        }
    }

    /// Sends a statement between the start and the end of a transaction. All of it is under way before the first answer
    /// is there, so it is whole even when nobody waits for it.
    pub(super) async fn transaction(
        &self,
        start: &str,
        call: impl Future<Output = Result<Vec<Row>, tokio_postgres::Error>>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let (begun, rows, ended) = tokio::join!(biased; self.batch(start), call, self.batch("COMMIT"));
        begun?;
        let rows = rows?;
        ended.map(|()| rows)
    }

    pub(super) async fn query_unnamed(
        &self,
        sql: &Sql,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let typed: Vec<_> = params.iter().copied().zip(sql.types.iter().cloned()).collect();
        self.client.query_typed(&sql.text, &typed).await
    }

    pub(super) async fn query_prepared(
        &self,
        sql: &Sql,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.client.query(&self.prepared(sql).await?, params).await
    }

    async fn prepared(&self, sql: &Sql) -> Result<Statement, tokio_postgres::Error> {
        let known = self.statements().get(&sql.text).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare_typed(&sql.text, &sql.types).await?;
        self.statements().insert(sql.text.clone(), statement.clone());
        Ok(statement)
    }

    fn statements(&self) -> MutexGuard<'_, HashMap<String, Statement>> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a connection unless it is kept.
pub(super) struct AbortOnDrop(pub(super) Option<AbortHandle>);

impl AbortOnDrop {
    pub(super) fn keep(mut self) -> AbortHandle {
        // It is taken only here.
        self.0.take().expect("a connection has a driver")
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(driver) = &self.0 {
            driver.abort();
        }
    }
}

/// A connection while it is in a transaction, alone. Dropping it before its [end](Session::end) closes the connection,
/// since whatever came next would be part of it.
pub(crate) struct Transaction {
    pub(super) connection: Arc<Connection>,
    pub(super) is_open: bool,
    pub(super) _turn: OwnedRwLockWriteGuard<()>,
}

impl Transaction {
    /// The statements in it.
    pub(crate) fn statements(&self) -> Within {
        Within(Arc::clone(&self.connection))
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.is_open {
            self.connection.driver.abort();
        }
    }
}

/// Runs statements in a [`Transaction`].
pub(crate) struct Within(Arc<Connection>);

impl Within {
    /// Runs a statement and collects its rows.
    pub(crate) async fn query(
        &self,
        sql: &Sql,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.0.query_prepared(sql, params).await
    }

    /// Closes the connection, and with it the transaction.
    pub(crate) fn close(&self) {
        self.0.driver.abort();
    }

    /// Starts a copy into a table.
    pub(crate) async fn copy_in(&self, sql: &Sql) -> Result<CopyInSink<Bytes>, tokio_postgres::Error> {
        self.0.client.copy_in(&self.0.prepared(sql).await?).await
    }
}

/// Moves a connection's messages until it ends.
pub(super) async fn drive(
    mut connection: Driver,
    on_notification: Option<OnNotification>,
    end: watch::Sender<bool>,
    _busy: Option<Busy>,
) {
    loop {
        match poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                if let Some(on_notification) = &on_notification {
                    on_notification(&notification);
                }
            }
            Some(Ok(AsyncMessage::Notice(notice))) => {
                tracing::debug!(severity = notice.severity(), "{}", notice.message());
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::debug!(%error, "a connection ended");
                break;
            }
            None => break,
        }
    }
    end.send_replace(true);
}
