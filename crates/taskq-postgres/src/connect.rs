//! Opening a connection, and what a store is opened with.

use std::net::SocketAddr;

use taskq_core::store::StoreError;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Connection, config};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::dsn::{Dsn, Server, Target};
use crate::error;
use crate::mode::ConnectionMode;
use crate::password::PasswordCallback;
use crate::role::Role;
use crate::schema::SchemaName;
use crate::stream::{Address, Stream};
use crate::tls::SslMode;

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
    /// Who hands out the password, in place of the DSN's, for each connection anew. Default none.
    pub password_callback: Option<PasswordCallback>,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            schema: SchemaName::default(),
            check_schema: true,
            mode: ConnectionMode::Auto,
            password_callback: None,
        }
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

    /// Sets who hands out the password at each connect and reconnect.
    #[must_use]
    pub fn password_callback(mut self, callback: PasswordCallback) -> Self {
        self.password_callback = Some(callback);
        self
    }
}

/// What moves a connection's messages.
pub(crate) type Driver = Connection<Stream, <MakeRustlsConnect as MakeTlsConnect<Stream>>::Stream>;

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
    let opened = Box::pin(open_any(dsn, role, start));
    let Ok(opened) = tokio::time::timeout(dsn.connect_deadline(), opened).await else {
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

/// Tries the servers in their order until one will do.
async fn open_any(dsn: &Dsn, role: Role, start: Start) -> Result<Opened, StoreError> {
    let (first, second) = match dsn.target() {
        Target::PreferStandby => (Target::Standby, Some(Target::Any)),
        target => (target, None),
    };
    // What the server would be without our settings is asked for.
    let start = if first == Target::Any { start } else { Start::Bare };
    let hosts = dsn.hosts();
    let mut failure = None;
    for target in [Some(first), second].into_iter().flatten() {
        for server in &hosts {
            let addresses = match server.addresses().await {
                Ok(addresses) => addresses,
                Err(error) => {
                    failure = Some(unreachable(server, error));
                    continue;
                }
            };
            for address in addresses {
                match open_at(dsn, server, &address, role, start).await {
                    Ok(opened) => match check_target(&opened, target, server) {
                        Ok(()) => return Ok(opened),
                        Err(error) => failure = Some(error),
                    },
                    // Another server would answer the same.
                    Err(error @ (StoreError::Refused { .. } | StoreError::Password { .. })) => {
                        return Err(error);
                    }
                    Err(error) => failure = Some(error),
                }
            }
        }
    }
    Err(failure.unwrap_or_else(|| StoreError::invalid("the DSN names no server: add a host")))
}

/// Says whether a server is what was asked for.
fn check_target(opened: &Opened, target: Target, server: &Server) -> Result<(), StoreError> {
    let is_on = |name: &str| opened.connection.parameter(name) == Some("on");
    let (standby, read_only) = (is_on("in_hot_standby"), is_on("default_transaction_read_only"));
    let problem = match target {
        Target::ReadWrite if standby || read_only => "is read-only",
        Target::ReadOnly if !standby && !read_only => "is not read-only",
        Target::Primary if standby => "is a standby",
        Target::Standby if !standby => "is no standby",
        _ => return Ok(()),
    };
    let message = format!("{server} {problem}, which target_session_attrs does not allow");
    Err(StoreError::Unavailable { message, source: None })
}

async fn open_at(
    dsn: &Dsn,
    server: &Server,
    address: &Address,
    role: Role,
    mut start: Start,
) -> Result<Opened, StoreError> {
    let (mut mode, mut other) = match dsn.tls().mode {
        _ if server.is_local_socket() => (SslMode::Disable, None),
        SslMode::Disable => (SslMode::Disable, None),
        SslMode::Allow => (SslMode::Disable, Some(SslMode::Require)),
        SslMode::Prefer => (SslMode::Prefer, Some(SslMode::Disable)),
        mode => (mode, None),
    };
    loop {
        let connecting = Stream::connect(address, dsn.liveness());
        let Ok(stream) = tokio::time::timeout(dsn.connect_timeout(), connecting).await else {
            let message = format!("{server} did not answer in time");
            return Err(StoreError::Unavailable { message, source: None });
        };
        let stream = stream.map_err(|error| unreachable(server, error))?;
        let local = stream.local();
        let settings = (start == Start::Set).then(|| role.startup_options());
        let mut config = dsn.config(server, role, settings.as_deref()).await?;
        config.ssl_mode(match mode {
            SslMode::Disable => config::SslMode::Disable,
            SslMode::Allow | SslMode::Prefer => config::SslMode::Prefer,
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => config::SslMode::Require,
        });
        let (client, connection) = match connect(dsn, server, mode, config, stream).await {
            Ok(connected) => connected,
            Err(Failure::Driver(error)) if start == Start::Set && refuses_settings(&error) => {
                start = Start::Bare;
                continue;
            }
            Err(Failure::Driver(error)) => match other.take() {
                Some(other) if error::refuses_encryption(&error) || refuses_way(&error) => {
                    mode = other;
                    continue;
                }
                _ => return Err(error::of_connect(error, &server.to_string())),
            },
            Err(Failure::Store(error)) => return Err(error),
        };
        let version = connection.parameter("server_version").unwrap_or_default();
        let digits = version.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let major = digits
            .parse()
            .map_err(|_| StoreError::Answer { message: format!("the server's version is {version:?}") })?;
        return Ok(Opened { client, connection, major, local, is_set: start == Start::Set });
    }
}

enum Failure {
    Driver(tokio_postgres::Error),
    Store(StoreError),
}

async fn connect(
    dsn: &Dsn,
    server: &Server,
    mode: SslMode,
    mut config: tokio_postgres::Config,
    stream: Stream,
) -> Result<(Client, Driver), Failure> {
    if mode == SslMode::Disable {
        // The type is that of an encrypted connection all the same.
        let (client, connection) = config.connect_raw(stream, Plain).await.map_err(Failure::Driver)?;
        return Ok((client, connection));
    }
    if dsn.tls().is_direct {
        config.ssl_negotiation(config::SslNegotiation::Direct);
    }
    let mut connector = dsn.tls().connector().map_err(Failure::Store)?;
    let Ok(connector) = MakeTlsConnect::<Stream>::make_tls_connect(&mut connector, server.name());
    config.connect_raw(stream, connector).await.map_err(Failure::Driver)
}

/// Encrypts nothing, and is never asked to.
struct Plain;

impl TlsConnect<Stream> for Plain {
    type Stream = <MakeRustlsConnect as MakeTlsConnect<Stream>>::Stream;
    type Error = std::io::Error;
    type Future = std::future::Ready<Result<Self::Stream, Self::Error>>;

    fn connect(self, _stream: Stream) -> Self::Future {
        std::future::ready(Err(std::io::ErrorKind::Unsupported.into()))
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

/// Says whether the server lets nobody in on this way, be it encrypted or plain.
fn refuses_way(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| code.code() == "28000")
}
