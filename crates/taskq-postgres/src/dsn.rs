//! Where the database is and how its sessions are set up.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::time::Duration;

use taskq_core::store::StoreError;
use tokio_postgres::config::{Host, SslMode, SslNegotiation};

/// How long one attempt to reach one address may take, unless the DSN says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server that accepted the connection may take to answer.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long sent data may stay unacknowledged before the connection counts as dead.
const UNACKNOWLEDGED: Duration = Duration::from_secs(20);
/// How long a connection is idle before the first keepalive probe.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// Settings of every session, whatever the role's and the database's defaults are.
const SETTINGS: &[(&str, &str)] = &[
    ("default_transaction_isolation", "read\\ committed"),
    ("default_transaction_read_only", "off"),
    ("default_transaction_deferrable", "off"),
    ("idle_in_transaction_session_timeout", "60s"),
    ("idle_session_timeout", "0"),
    ("standard_conforming_strings", "on"),
    ("DateStyle", "ISO"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
];

/// How statements are planned, as in the functions: a scan of the whole table is never what a query of ours
/// wants, and statistics that are missing or stale must not choose it. Migrations plan for themselves.
const PLANNER: &[(&str, &str)] = &[
    ("jit", "off"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_indexscan", "on"),
    ("enable_indexonlyscan", "on"),
    ("enable_nestloop", "on"),
    ("enable_sort", "on"),
];

/// What a connection is for. Each role has one connection of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Enqueues and queries.
    Client,
    /// Claims.
    Claim,
    /// Settles.
    Settle,
    /// Sessions, heartbeats, comparisons and notifications.
    Control,
    /// The leader's sweeps.
    Sweep,
    /// Migrations.
    Migrate,
}

impl Role {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Claim => "claim",
            Self::Settle => "settle",
            Self::Control => "control",
            Self::Sweep => "sweep",
            Self::Migrate => "migrate",
        }
    }

    /// How long the server works on one statement before it gives up; zero is for ever.
    const fn statement_timeout(self) -> Duration {
        match self {
            Self::Client | Self::Settle => Duration::from_mins(1),
            Self::Claim => Duration::from_secs(20),
            // Several beats must fit into a lease.
            Self::Control => Duration::from_secs(10),
            Self::Sweep => Duration::from_secs(30),
            Self::Migrate => Duration::ZERO,
        }
    }

    /// How long one statement waits for a lock of somebody else before it gives up; zero is for ever. Calls behind it on
    /// the same connection wait as long.
    const fn lock_timeout(self) -> Duration {
        match self {
            // A row that an open transaction holds must not hold up the outcomes of others.
            Self::Settle => Duration::from_secs(1),
            Self::Client | Self::Control => Duration::from_secs(5),
            Self::Claim => Duration::from_secs(10),
            Self::Sweep => Duration::from_secs(15),
            Self::Migrate => Duration::ZERO,
        }
    }

    /// How long one call may take before its connection counts as dead: longer than the server would.
    pub(crate) fn deadline(self) -> Duration {
        self.statement_timeout() + Duration::from_secs(5)
    }
}

/// A data source name that has been understood.
#[derive(Clone)]
pub(crate) struct Dsn {
    config: tokio_postgres::Config,
    name: Option<String>,
    options: Option<String>,
}

impl Dsn {
    /// The configuration of one role's connection.
    pub(crate) fn config(&self, role: Role) -> tokio_postgres::Config {
        let mut config = self.config.clone();
        config.application_name(format!("{}:{}", self.name.as_deref().unwrap_or("taskq"), role.as_str()));
        // Later settings win, so the DSN's own come first.
        let mut options = self.options.clone().unwrap_or_default();
        let planner = if role == Role::Migrate { &[] } else { PLANNER };
        for (name, value) in SETTINGS.iter().chain(planner) {
            let _ = write!(options, " -c {name}={value}");
        }
        let (statement, lock) = (role.statement_timeout().as_millis(), role.lock_timeout().as_millis());
        let _ = write!(options, " -c statement_timeout={statement} -c lock_timeout={lock}");
        config.options(options.trim_start());
        config
    }

    /// The configuration of a connection that sets nothing by itself, as other programs connect.
    pub(crate) fn plain_config(&self) -> tokio_postgres::Config {
        let mut config = self.config.clone();
        config.application_name(format!("{}:doctor", self.name.as_deref().unwrap_or("taskq")));
        if let Some(options) = &self.options {
            config.options(options.as_str());
        }
        config
    }

    /// How long all attempts to connect may take together.
    pub(crate) fn connect_deadline(&self) -> Duration {
        let hosts = u32::try_from(self.config.get_hosts().len().max(1)).unwrap_or(u32::MAX);
        let each = self.config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
        each.saturating_mul(hosts).saturating_add(HANDSHAKE_TIMEOUT)
    }

    /// The servers, for messages: never the password.
    pub(crate) fn servers(&self) -> String {
        let ports = self.config.get_ports();
        let port = |at: usize| ports.get(at).or_else(|| ports.first()).copied().unwrap_or(5432);
        let mut servers = Vec::new();
        for (at, host) in self.config.get_hosts().iter().enumerate() {
            servers.push(match host {
                Host::Tcp(name) => format!("{name}:{}", port(at)),
                #[cfg(unix)]
                Host::Unix(path) => format!("{}/.s.PGSQL.{}", path.display(), port(at)),
            });
        }
        if servers.is_empty() {
            let addresses = self.config.get_hostaddrs().iter().enumerate();
            servers.extend(addresses.map(|(at, address)| format!("{address}:{}", port(at))));
        }
        servers.join(", ")
    }
}

impl FromStr for Dsn {
    type Err = StoreError;

    /// Understands a URL (`postgres://…`) or libpq's `key=value` form.
    fn from_str(text: &str) -> Result<Self, StoreError> {
        let mut config: tokio_postgres::Config = text.parse().map_err(|error| refuse(text, &error))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(StoreError::invalid("the DSN names no server: add a host"));
        }
        if config.get_ssl_mode() == SslMode::Require || config.get_ssl_negotiation() == SslNegotiation::Direct
        {
            return Err(no_tls());
        }
        // `prefer` allows a plain connection, which is all there is for now.
        config.ssl_mode(SslMode::Disable);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(UNACKNOWLEDGED);
        }
        if config.get_keepalives_idle() == tokio_postgres::Config::new().get_keepalives_idle() {
            config.keepalives_idle(KEEPALIVE_IDLE);
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(KEEPALIVE_INTERVAL);
        }
        if config.get_keepalives_retries().is_none() {
            config.keepalives_retries(KEEPALIVE_RETRIES);
        }
        let name = config.get_application_name().map(str::to_owned);
        let options = config.get_options().map(str::to_owned);
        Ok(Self { config, name, options })
    }
}

/// Says what is wrong with a DSN without repeating it: it may hold a password.
fn refuse(text: &str, error: &tokio_postgres::Error) -> StoreError {
    let reason = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    if reason.contains("sslmode") && (text.contains("verify-ca") || text.contains("verify-full")) {
        return no_tls();
    }
    StoreError::invalid(format!("the DSN cannot be read: {reason}"))
}

fn no_tls() -> StoreError {
    StoreError::Unsupported {
        index: None,
        message: "encrypted connections are not supported yet: the DSN asks for one with `sslmode` or \
                  `sslnegotiation`"
            .to_owned(),
    }
}

impl fmt::Debug for Dsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dsn").field("servers", &self.servers()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encryption_is_refused_and_never_downgraded() {
        for mode in ["require", "verify-ca", "verify-full"] {
            let error = format!("postgres://u@localhost/d?sslmode={mode}").parse::<Dsn>().unwrap_err();
            assert!(matches!(error, StoreError::Unsupported { .. }), "{mode}: {error}");
        }
        assert!("postgres://u@localhost/d?sslmode=prefer".parse::<Dsn>().is_ok());
        assert!("host=localhost sslmode=disable".parse::<Dsn>().is_ok());
    }

    #[test]
    fn bad_names_are_refused_in_one_line_without_the_password() {
        for text in ["", "user=postgres", "host=a port=secret", "postgres://u:secret@h:port/d", "host"] {
            let error = text.parse::<Dsn>().unwrap_err();
            assert!(matches!(error, StoreError::Invalid { .. }), "{text}: {error}");
            let line = error.to_string();
            assert!(!line.contains('\n') && !line.contains("secret"), "{line}");
        }
    }

    #[test]
    fn settings_of_the_dsn_come_before_ours() {
        let dsn: Dsn = "host=a,b port=1,2 application_name=web options='-c work_mem=1MB'".parse().unwrap();
        let config = dsn.config(Role::Claim);
        assert_eq!(config.get_application_name(), Some("web:claim"));
        assert!(config.get_options().unwrap().starts_with("-c work_mem=1MB -c default_transaction"));
        assert_eq!(dsn.servers(), "a:1, b:2");
    }
}
