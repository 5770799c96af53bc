//! Where the database is and how its sessions are set up.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
#[cfg(unix)]
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use taskq_core::store::StoreError;
use tokio_postgres::config::{Host, SslMode, SslNegotiation};

use crate::role::Role;
use crate::stream::{Address, Liveness};

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

/// A data source name that has been understood.
#[derive(Clone)]
pub(crate) struct Dsn {
    config: tokio_postgres::Config,
    hosts: Vec<Server>,
    liveness: Liveness,
    name: Option<String>,
    options: Option<String>,
}

impl Dsn {
    /// What a session of one role says at its start; `settings` come last, since later ones win.
    pub(crate) fn config(&self, role: Role, settings: Option<&str>) -> tokio_postgres::Config {
        let mut config = self.config.clone();
        config.application_name(format!("{}:{}", self.name.as_deref().unwrap_or("taskq"), role.as_str()));
        let options =
            format!("{}{}", self.options.as_deref().unwrap_or_default(), settings.unwrap_or_default());
        if !options.is_empty() {
            config.options(options.trim_start());
        }
        config
    }

    /// The servers, in the order in which they are tried.
    pub(crate) fn hosts(&self) -> &[Server] {
        &self.hosts
    }

    /// How connections find out that the other side is gone.
    pub(crate) const fn liveness(&self) -> &Liveness {
        &self.liveness
    }

    /// How long one attempt to reach one address may take.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT)
    }

    /// How long all attempts to connect may take together.
    pub(crate) fn connect_deadline(&self) -> Duration {
        let hosts = u32::try_from(self.hosts.len().max(1)).unwrap_or(u32::MAX);
        self.connect_timeout().saturating_mul(hosts).saturating_add(HANDSHAKE_TIMEOUT)
    }

    /// The servers, for messages: never the password.
    pub(crate) fn servers(&self) -> String {
        let servers: Vec<_> = self.hosts.iter().map(ToString::to_string).collect();
        servers.join(", ")
    }
}

/// A server that may answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Server {
    place: Place,
    port: u16,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    /// A name, or an address in its place.
    Host(String),
    /// A name, and the address that it has whatever it resolves to.
    Address(IpAddr),
    /// The directory of its socket.
    #[cfg(unix)]
    Directory(PathBuf),
}

impl Server {
    /// Where to try to reach it.
    pub(crate) async fn addresses(&self) -> io::Result<Vec<Address>> {
        Ok(match &self.place {
            Place::Host(name) => {
                let found = tokio::net::lookup_host((name.as_str(), self.port)).await?;
                found.map(Address::Tcp).collect()
            }
            Place::Address(address) => vec![Address::Tcp(SocketAddr::new(*address, self.port))],
            #[cfg(unix)]
            Place::Directory(path) => vec![Address::Unix(path.join(format!(".s.PGSQL.{}", self.port)))],
        })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Host(name) => write!(f, "{name}:{}", self.port),
            Place::Address(address) => write!(f, "{}", SocketAddr::new(*address, self.port)),
            #[cfg(unix)]
            Place::Directory(path) => write!(f, "{}/.s.PGSQL.{}", path.display(), self.port),
        }
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
        let liveness = liveness(&config);
        let hosts = hosts(&config);
        let name = config.get_application_name().map(str::to_owned);
        let options = config.get_options().map(str::to_owned);
        Ok(Self { config, hosts, liveness, name, options })
    }
}

fn liveness(config: &tokio_postgres::Config) -> Liveness {
    let idle = config.get_keepalives_idle();
    let is_default = idle == tokio_postgres::Config::new().get_keepalives_idle();
    Liveness {
        keepalives: config.get_keepalives(),
        idle: if is_default { KEEPALIVE_IDLE } else { idle },
        interval: config.get_keepalives_interval().unwrap_or(KEEPALIVE_INTERVAL),
        retries: config.get_keepalives_retries().unwrap_or(KEEPALIVE_RETRIES),
        unacknowledged: config.get_tcp_user_timeout().copied().unwrap_or(UNACKNOWLEDGED),
    }
}

fn hosts(config: &tokio_postgres::Config) -> Vec<Server> {
    let ports = config.get_ports();
    let port = |at: usize| ports.get(at).or_else(|| ports.first()).copied().unwrap_or(5432);
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() {
        let place =
            |(at, address): (usize, &IpAddr)| Server { place: Place::Address(*address), port: port(at) };
        return addresses.iter().enumerate().map(place).collect();
    }
    let place = |(at, host): (usize, &Host)| Server {
        place: match host {
            Host::Tcp(name) => Place::Host(name.clone()),
            #[cfg(unix)]
            Host::Unix(path) => Place::Directory(path.clone()),
        },
        port: port(at),
    };
    config.get_hosts().iter().enumerate().map(place).collect()
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
        let config = dsn.config(Role::Claim, Some(&Role::Claim.startup_options()));
        assert_eq!(config.get_application_name(), Some("web:claim"));
        assert!(config.get_options().unwrap().starts_with("-c work_mem=1MB -c default_transaction"));
        assert_eq!(dsn.servers(), "a:1, b:2");
    }
}
