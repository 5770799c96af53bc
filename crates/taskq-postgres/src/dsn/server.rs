//! The servers that a DSN names.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
#[cfg(unix)]
use std::path::PathBuf;

use super::given::Given;
use crate::stream::Address;

/// A server that may answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Server {
    /// What it is called: in its certificate, and in the password file.
    name: String,
    place: Place,
    port: u16,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    /// Wherever its name leads.
    Name,
    Address(IpAddr),
    /// The directory of its socket.
    #[cfg(unix)]
    Directory(PathBuf),
}

/// Reads `host`, `hostaddr` and `port`: lists of the same length, or one port for all.
pub(super) fn read(given: &mut Given) -> Result<Vec<Server>, String> {
    let list = |value: &str| Ok(value.split(',').map(str::trim).map(str::to_owned).collect::<Vec<_>>());
    let hosts = given.read("host", list)?.unwrap_or_default();
    let addresses = given.read("hostaddr", |value| {
        let address =
            |text: &str| text.trim().parse::<IpAddr>().map_err(|_| "it is no IP address".to_owned());
        value.split(',').map(address).collect::<Result<Vec<_>, _>>()
    })?;
    let addresses = addresses.unwrap_or_default();
    let ports = given.read("port", |value| {
        let port = |text: &str| match text.trim() {
            "" => Ok(5432),
            text => {
                text.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(|| "it is no port".to_owned())
            }
        };
        value.split(',').map(port).collect::<Result<Vec<_>, _>>()
    })?;
    let ports = ports.unwrap_or_default();
    if !hosts.is_empty() && !addresses.is_empty() && hosts.len() != addresses.len() {
        return Err(format!("hostaddr: {} addresses for {} hosts", addresses.len(), hosts.len()));
    }
    let count = hosts.len().max(addresses.len());
    if ports.len() > 1 && ports.len() != count {
        return Err(format!("port: {} ports for {count} hosts", ports.len()));
    }
    let server = |nth: usize| {
        let port = ports.get(nth).or_else(|| ports.first()).copied().unwrap_or(5432);
        let host = hosts.get(nth).map(String::as_str).unwrap_or_default();
        let place = match addresses.get(nth) {
            Some(address) => Place::Address(*address),
            #[cfg(unix)]
            None if host.starts_with('/') => Place::Directory(host.into()),
            None if host.is_empty() => return Err("host: one of the names is empty".to_owned()),
            None if host.starts_with('@') => {
                return Err("host: abstract sockets are not supported".to_owned());
            }
            None => Place::Name,
        };
        let name = if host.is_empty() { addresses[nth].to_string() } else { host.to_owned() };
        Ok(Server { name, place, port })
    };
    (0..count).map(server).collect()
}

impl Server {
    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Whether nothing on the way needs encryption.
    pub(crate) const fn is_local_socket(&self) -> bool {
        match self.place {
            Place::Name | Place::Address(_) => false,
            #[cfg(unix)]
            Place::Directory(_) => true,
        }
    }

    /// Where to try to reach it.
    pub(crate) async fn addresses(&self) -> io::Result<Vec<Address>> {
        Ok(match &self.place {
            Place::Name => {
                let found = tokio::net::lookup_host((self.name.as_str(), self.port)).await?;
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
            Place::Name => write!(f, "{}:{}", self.name, self.port),
            Place::Address(address) => write!(f, "{}", SocketAddr::new(*address, self.port)),
            #[cfg(unix)]
            Place::Directory(path) => write!(f, "{}/.s.PGSQL.{}", path.display(), self.port),
        }
    }
}
