//! Direct or pooled: whether a connection keeps its server session.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use taskq_core::store::StoreError;
use tokio::time::timeout;
use tokio_postgres::Client;

use crate::codec::{Columns, only};
use crate::connect::{Start, open};
use crate::dsn::Dsn;
use crate::error;
use crate::role::Role;
use crate::schema::SchemaName;

/// How long finding out may take. Who waits for longer is behind something that gives out no second session.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often the sessions are compared: where others use the pooler, they may happen to be the same.
const ROUNDS: usize = 3;

/// How connections to the database are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum ConnectionMode {
    /// Finds out at each connect whether a pooler in transaction mode is in between, and takes the mode that fits.
    #[default]
    Auto,
    /// Each connection is a session of the server: settings are made once, statements are prepared, wake-ups are heard.
    /// A pooler in transaction mode is refused.
    Direct,
    /// Any transaction may meet another session: each call is a transaction that brings its settings along, no statement has
    /// a name, and workers poll. Works through every pooler but one in statement mode, and without one.
    Pooled,
}

/// How one connection is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Nothing is in between.
    Direct,
    /// Something is in between that keeps sessions, and may have kept the settings for itself.
    Kept,
    Pooled,
}

/// What is known of the way to the server; shared by the connections of a store.
#[derive(Debug)]
pub(crate) struct Route {
    asked: ConnectionMode,
    /// What comparing sessions has shown: [`UNKNOWN`], [`KEEPS`] or [`CHANGES`].
    found: AtomicU8,
    told: AtomicBool,
}

const UNKNOWN: u8 = 0;
const KEEPS: u8 = 1;
const CHANGES: u8 = 2;

impl Route {
    pub(crate) const fn new(asked: ConnectionMode) -> Self {
        Self { asked, found: AtomicU8::new(UNKNOWN), told: AtomicBool::new(false) }
    }

    /// How the next connection is started.
    pub(crate) fn start(&self) -> Start {
        let pooled = self.asked == ConnectionMode::Pooled || self.found.load(Ordering::Relaxed) == CHANGES;
        if pooled { Start::Bare } else { Start::Set }
    }

    /// Finds out how a new connection may be used.
    ///
    /// A server that sees this side's own address has nothing in between. Else two sessions are compared, once for all
    /// connections of the store.
    pub(crate) async fn mode(
        &self,
        dsn: &Dsn,
        client: &Client,
        local: Option<SocketAddr>,
    ) -> Result<Mode, StoreError> {
        if self.asked == ConnectionMode::Pooled {
            return Ok(Mode::Pooled);
        }
        if is_seen(client, local).await? {
            return Ok(Mode::Direct);
        }
        match self.found.load(Ordering::Relaxed) {
            KEEPS => return Ok(Mode::Kept),
            CHANGES => return self.pooled(),
            _ => {}
        }
        match timeout(PATIENCE, changes_sessions(dsn, client)).await {
            Ok(Ok(false)) => {
                self.found.store(KEEPS, Ordering::Relaxed);
                Ok(Mode::Kept)
            }
            Ok(Ok(true)) => {
                self.found.store(CHANGES, Ordering::Relaxed);
                self.pooled()
            }
            failed => Ok(self.unknown(failed.ok().and_then(Result::err))),
        }
    }

    /// Notes that a session had statements that are not ours, or lost ours: it is shared.
    pub(crate) fn doubt(&self) {
        let found = if self.asked == ConnectionMode::Auto { CHANGES } else { UNKNOWN };
        self.found.store(found, Ordering::Relaxed);
    }

    fn pooled(&self) -> Result<Mode, StoreError> {
        if self.asked == ConnectionMode::Direct {
            return Err(refusal());
        }
        self.tell(
            "a pooler in transaction mode is in between: workers poll, and every call brings its settings",
        );
        Ok(Mode::Pooled)
    }

    /// What serves everywhere, when nothing could be found out. Who asked for the direct mode is believed.
    fn unknown(&self, error: Option<StoreError>) -> Mode {
        let reason = error.map_or_else(|| "no answer in time".to_owned(), |error| error.to_string());
        if self.asked == ConnectionMode::Direct {
            tracing::debug!(reason, "whether a pooler is in between could not be found out");
            return Mode::Kept;
        }
        self.found.store(CHANGES, Ordering::Relaxed);
        self.tell(&format!(
            "whether a pooler is in between could not be found out ({reason}): workers poll, as if there were one"
        ));
        Mode::Pooled
    }

    fn tell(&self, what: &str) {
        if !self.told.swap(true, Ordering::Relaxed) {
            tracing::warn!("{what}");
        }
    }
}

/// Why the direct mode cannot be.
pub(crate) fn refusal() -> StoreError {
    StoreError::Pooler {
        message: "the connection goes through a pooler that changes sessions between transactions, which the direct \
                  mode cannot bear: choose the pooled mode, or connect to the server itself or to the pooler in session \
                  mode"
            .to_owned(),
    }
}

/// Says whether the server sees this side's own address, so that nothing is in between.
pub(crate) async fn is_seen(client: &Client, local: Option<SocketAddr>) -> Result<bool, StoreError> {
    let Some(local) = local else { return Ok(false) };
    let sql = "SELECT pg_catalog.inet_client_addr(), pg_catalog.inet_client_port()";
    let rows = client.query_typed(sql, &[]).await.map_err(failed)?;
    let mut columns = Columns::of(only(&rows)?);
    let (address, port) = (columns.read::<Option<IpAddr>>()?, columns.read::<Option<i32>>()?);
    let same = |address: IpAddr| address.to_canonical() == local.ip().to_canonical();
    Ok(address.is_some_and(same) && port == Some(i32::from(local.port())))
}

/// Says whether a connection meets another session when a second one has a transaction open, as behind a pooler in
/// transaction mode.
pub(crate) async fn changes_sessions(dsn: &Dsn, ours: &Client) -> Result<bool, StoreError> {
    let opened = open(dsn, Role::Doctor, Start::Bare).await?;
    let other = opened.client;
    // It ends with the client.
    tokio::spawn(opened.connection);
    let first = backend(ours).await?;
    for _ in 0..ROUNDS {
        other.batch_execute("BEGIN").await.map_err(failed)?;
        let others = backend(&other).await?;
        // Behind a pooler with a single session, nobody else would be served before the end.
        let changed = others == first || backend(ours).await? != first;
        other.batch_execute("ROLLBACK").await.map_err(failed)?;
        if changed || backend(ours).await? != first {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The process that serves the session, or the transaction.
pub(crate) async fn backend(client: &Client) -> Result<i32, StoreError> {
    let rows = client.query_typed("SELECT pg_catalog.pg_backend_pid()", &[]).await.map_err(failed)?;
    Columns::of(only(&rows)?).read()
}

fn failed(error: tokio_postgres::Error) -> StoreError {
    error::of_call(error, &SchemaName::default())
}
