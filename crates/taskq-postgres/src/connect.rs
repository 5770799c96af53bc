//! Opening a connection, and what a store is opened with.

use taskq_core::store::StoreError;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Client, Connection, NoTls, Socket};

use crate::dsn::{Dsn, Role};
use crate::error;
use crate::schema::SchemaName;

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
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self { schema: SchemaName::default(), check_schema: true }
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
}

/// A connection that nobody drives yet.
pub(crate) struct Opened {
    pub(crate) client: Client,
    pub(crate) connection: Connection<Socket, NoTlsStream>,
    /// The server's major version.
    pub(crate) major: u32,
}

/// Opens a connection with the session settings of its role.
pub(crate) async fn open(dsn: &Dsn, role: Role) -> Result<Opened, StoreError> {
    let config = dsn.config(role);
    let opened = tokio::time::timeout(dsn.connect_deadline(), config.connect(NoTls)).await;
    let Ok(opened) = opened else {
        return Err(StoreError::Unavailable {
            message: format!("{} did not answer in time", dsn.servers()),
            source: None,
        });
    };
    let (client, connection) = opened.map_err(|error| error::of_connect(error, &dsn.servers()))?;
    let version = connection.parameter("server_version").unwrap_or_default();
    let digits = version.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    let major = digits
        .parse()
        .map_err(|_| StoreError::Answer { message: format!("the server's version is {version:?}") })?;
    if major < OLDEST {
        return Err(StoreError::Refused {
            message: format!("PostgreSQL {version} is older than {OLDEST}, the oldest supported version"),
        });
    }
    Ok(Opened { client, connection, major })
}

/// Settings that older servers do not know, so that they cannot travel with the start of the session.
pub(crate) const fn late_settings(major: u32) -> Option<&'static str> {
    if major >= 17 { Some("SET transaction_timeout = 0") } else { None }
}
