//! A network that fails on demand.

mod conversation;
mod faults;
mod link;
mod swallow;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

pub use faults::Direction;
use faults::Faults;
use swallow::Orders;
pub use swallow::Swallow;

/// A proxy in front of a PostgreSQL server, whose connections can be broken while they run.
///
/// It listens on 127.0.0.1 and runs on a thread of its own, so it works whatever the caller's runtime does. It reads the
/// protocol, therefore it refuses encryption. Faults last until [`heal`](Self::heal). Dropping it resets every
/// connection and refuses new ones.
pub struct Proxy {
    dsn: String,
    faults: watch::Sender<Faults>,
    orders: Orders,
    open: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// A proxy could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The DSN is not one that can lead through a proxy.
    #[error("the DSN must be a URL with one host, reached over TCP")]
    Dsn,
    /// The system refused a port, a thread or a runtime.
    #[error("cannot start a proxy: {0}")]
    Start(#[source] io::Error),
}

impl Proxy {
    /// Starts a proxy in front of the server of `dsn`, a URL. The server need not run yet.
    ///
    /// # Errors
    ///
    /// `dsn` is not a URL with one host, or the system refuses a port or a thread.
    pub fn start(dsn: &str) -> Result<Self, ProxyError> {
        let target = target_of(dsn).ok_or(ProxyError::Dsn)?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(ProxyError::Start)?;
        listener.set_nonblocking(true).map_err(ProxyError::Start)?;
        let port = listener.local_addr().map_err(ProxyError::Start)?.port();
        let dsn = through(dsn, port).ok_or(ProxyError::Dsn)?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ProxyError::Start)?;

        let faults = watch::Sender::new(Faults::default());
        let (orders, open) = (Orders::default(), Arc::new(AtomicUsize::new(0)));
        let serving = serve(listener, target, orders.clone(), faults.subscribe(), Arc::clone(&open));
        let thread = thread::Builder::new().name("proxy".to_owned()).spawn(move || runtime.block_on(serving));
        let thread = Some(thread.map_err(ProxyError::Start)?);
        Ok(Self { dsn, faults, orders, open, thread })
    }

    /// How to connect through the proxy: the server's DSN with another host and port.
    pub fn dsn(&self) -> &str {
        &self.dsn
    }

    /// How many connections there are, those that wait for the server included.
    pub fn connections(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// How many requests the server has answered completely, on all connections: for a client that waits for each answer
    /// that is how often it waited.
    pub fn round_trips(&self) -> u64 {
        self.orders.answered()
    }

    /// Resets every connection, on both sides. New ones are accepted, unless they are [refused](Self::refuse).
    pub fn cut(&self) {
        self.faults.send_modify(|faults| faults.cuts += 1);
    }

    /// Resets every new connection as soon as it is made. Those that exist go on.
    pub fn refuse(&self) {
        self.faults.send_modify(|faults| faults.refusing = true);
    }

    /// Delivers everything `delay` after it was sent, from now on; what is under way as well. Zero ends the fault.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        self.faults.send_modify(|faults| faults.set_delay(direction, delay));
    }

    /// Delivers nothing, not even the end of a connection, and keeps all connections open.
    ///
    /// New ones are accepted. What was sent meanwhile is delivered after [`heal`](Self::heal), as TCP does when lost
    /// packets are sent again.
    pub fn black_hole(&self, direction: Direction) {
        self.faults.send_modify(|faults| faults.set_black_hole(direction));
    }

    /// Ends the faults that last: refused connections, delays and black holes.
    pub fn heal(&self) {
        self.faults.send_modify(Faults::heal);
    }

    /// Swallows the reply to the next statement that contains `text`, after the server has committed it, and cuts the
    /// connection.
    ///
    /// A statement prepared earlier counts when it is executed. In an explicit transaction the reply that is swallowed is
    /// the one to its commit. A statement that fails or is rolled back keeps its reply, and the next one is waited for.
    pub fn swallow_reply(&self, text: &str) -> Swallow {
        self.orders.add(text)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.faults.send_modify(|faults| faults.gone = true);
        if let Some(thread) = self.thread.take() {
            // It fails only if the thread panicked, which has been printed.
            let _ = thread.join();
        }
    }
}

async fn serve(
    listener: std::net::TcpListener,
    target: (String, u16),
    orders: Orders,
    faults: watch::Receiver<Faults>,
    open: Arc<AtomicUsize>,
) {
    let mut owner = faults.clone();
    let listener = TcpListener::from_std(listener).expect("the runtime has its I/O driver enabled");
    let mut links = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // An error concerns one connection, or passes when others end.
                let Ok((client, _)) = accepted else { continue };
                let (refusing, cuts) = {
                    let now = faults.borrow();
                    (now.refusing, now.cuts)
                };
                if refusing {
                    link::reset(&client);
                    continue;
                }
                let counted = Counted::one_more(&open);
                let running = link::run(client, target.clone(), orders.clone(), cuts, faults.clone());
                links.spawn(async move {
                    let _counted = counted;
                    running.await;
                });
            }
            Some(_) = links.join_next() => {}
            _ = owner.wait_for(|faults| faults.gone) => break,
        }
    }
    drop(listener);
    // The same change that ended the loop cuts them.
    while links.join_next().await.is_some() {}
}

/// One connection in the count of those that are open.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn one_more(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(open))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The one host and port that a DSN names.
fn target_of(dsn: &str) -> Option<(String, u16)> {
    let config: Config = dsn.parse().ok()?;
    match (config.get_hosts(), config.get_hostaddrs(), config.get_ports()) {
        ([Host::Tcp(host)], [], []) => Some((host.clone(), 5432)),
        ([Host::Tcp(host)], [], [port]) => Some((host.clone(), *port)),
        _ => None,
    }
}

/// The URL with the proxy in the place of its host.
fn through(dsn: &str, port: u16) -> Option<String> {
    let start = dsn.find("://")? + 3;
    let end = dsn[start..].find(['/', '?']).map_or(dsn.len(), |length| start + length);
    let user = dsn[start..end].rfind('@').map_or(start, |at| start + at + 1);
    let changed = format!("{}127.0.0.1:{port}{}", &dsn[..user], &dsn[end..]);
    // A host may also stand among the parameters.
    (target_of(&changed)? == ("127.0.0.1".to_owned(), port)).then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxy_takes_the_place_of_the_host() {
        let changed = |dsn: &str| target_of(dsn).and_then(|_| through(dsn, 7));
        let expected = "postgres://u:p%40@127.0.0.1:7/db?application_name=x";
        assert_eq!(changed("postgres://u:p%40@db.example:5433/db?application_name=x").unwrap(), expected);
        assert_eq!(changed("postgres://[::1]/db").unwrap(), "postgres://127.0.0.1:7/db");
        assert_eq!(changed("postgres://host").unwrap(), "postgres://127.0.0.1:7");
    }

    #[test]
    fn a_dsn_that_would_lead_past_the_proxy_is_refused() {
        for dsn in [
            "host=127.0.0.1 dbname=db",
            "postgres://one,two/db",
            "postgres://u@/db?host=/var/run/postgresql",
            "postgres://u@/db?host=other",
            "postgres://host/db?hostaddr=10.0.0.1",
            "not a dsn",
        ] {
            assert!(matches!(Proxy::start(dsn), Err(ProxyError::Dsn)), "{dsn}");
        }
    }
}
