//! Opening a connection, and what a store is opened with.

use std::net::SocketAddr;

use taskq_core::store::StoreError;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Client, Connection, NoTls};

use crate::dsn::{Dsn, Server};
use crate::error;
use crate::mode::ConnectionMode;
use crate::role::Role;
use crate::schema::SchemaName;
use crate::stream::{Address, Stream};

/// The oldest PostgreSQL that is supported.
const OLDEST: u32 = 15;

/// How a store is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// The schema that holds the store. Default `taskq`.
    pub schema: SchemaName,
    /// Refuses a schema that is missing, too old or too new. Default true; without it, calls on such a schema
    /// fail one by one.
    pub check_schema: bool,
    /// How connections are used. Default [`ConnectionMode::Auto`].
    pub mode: ConnectionMode,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self { schema: SchemaName::default(), check_schema: true, mode: ConnectionMode::Auto }
    }
}

impl ConnectOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the schema.
    #[must_use]
    pub fn schema(mut self, schema: SchemaName) -> Self {
        self.schema = schema;
        self
    }

    /// Sets whether the schema is checked at connect.
    #[must_use]
    pub const fn check_schema(mut self, check: bool) -> Self {
        self.check_schema = check;
        self
    }

    /// Sets how connections are used: a pooler in between is found out unless this says what is to be.
    #[must_use]
    pub const fn mode(mut self, mode: ConnectionMode) -> Self {
        self.mode = mode;
        self
    }
}

/// What moves a connection's messages.
pub(crate) type Driver = Connection<Stream, NoTlsStream>;

/// A connection that nobody drives yet.
pub(crate) struct Opened {
    pub(crate) client: Client,
    pub(crate) connection: Driver,
    /// The server's major version.
    pub(crate) major: u32,
    /// This side's address.
    pub(crate) local: Option<SocketAddr>,
    /// Whether the settings of its role were sent along. A pooler may have passed over them.
    pub(crate) is_set: bool,
}

/// What a session starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// The settings of its role, if whoever answers takes any.
    Set,
    /// Nothing of ours.
    Bare,
}

/// Opens a connection.
pub(crate) async fn open(dsn: &Dsn, role: Role, start: Start) -> Result<Opened, StoreError> {
    let opened = tokio::time::timeout(dsn.connect_deadline(), open_any(dsn, role, start)).await;
    let Ok(opened) = opened else {
        let message = format!("{} did not answer in time", dsn.servers());
        return Err(StoreError::Unavailable { message, source: None });
    };
    let opened = opened?;
    if opened.major < OLDEST {
        let version = opened.connection.parameter("server_version").unwrap_or_default();
        return Err(StoreError::Refused {
            message: format!("PostgreSQL {version} is older than {OLDEST}, the oldest supported version"),
        });
    }
    Ok(opened)
}

/// Tries the servers in their order.
async fn open_any(dsn: &Dsn, role: Role, start: Start) -> Result<Opened, StoreError> {
    let mut failure = None;
    for server in dsn.hosts() {
        let addresses = match server.addresses().await {
            Ok(addresses) => addresses,
            Err(error) => {
                failure = Some(unreachable(server, error));
                continue;
            }
        };
        for address in addresses {
            match open_at(dsn, server, &address, role, start).await {
                Ok(opened) => return Ok(opened),
                // Another server would ask for the same password.
                Err(error @ StoreError::Refused { .. }) => return Err(error),
                Err(error) => failure = Some(error),
            }
        }
    }
    Err(failure.unwrap_or_else(|| StoreError::invalid("the DSN names no server: add a host")))
}

async fn open_at(
    dsn: &Dsn,
    server: &Server,
    address: &Address,
    role: Role,
    start: Start,
) -> Result<Opened, StoreError> {
    let mut start = start;
    loop {
        let connecting = Stream::connect(address, dsn.liveness());
        let Ok(stream) = tokio::time::timeout(dsn.connect_timeout(), connecting).await else {
            let message = format!("{server} did not answer in time");
            return Err(StoreError::Unavailable { message, source: None });
        };
        let stream = stream.map_err(|error| unreachable(server, error))?;
        let local = stream.local();
        let settings = (start == Start::Set).then(|| role.startup_options());
        let config = dsn.config(role, settings.as_deref());
        let (client, connection) = match config.connect_raw(stream, NoTls).await {
            Ok(connected) => connected,
            Err(error) if start == Start::Set && refuses_settings(&error) => {
                start = Start::Bare;
                continue;
            }
            Err(error) => return Err(error::of_connect(error, &server.to_string())),
        };
        let version = connection.parameter("server_version").unwrap_or_default();
        let digits = version.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let major = digits
            .parse()
            .map_err(|_| StoreError::Answer { message: format!("the server's version is {version:?}") })?;
        return Ok(Opened { client, connection, major, local, is_set: start == Start::Set });
    }
}

fn unreachable(server: &Server, error: std::io::Error) -> StoreError {
    StoreError::Unavailable {
        message: format!("{server} cannot be reached: {error}"),
        source: Some(error.into()),
    }
}

/// Says whether a pooler turned the connection away because of the settings in its startup packet.
fn refuses_settings(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|db| db.message().contains("startup parameter"))
}
