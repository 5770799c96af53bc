//! A PostgreSQL server of one's own.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::account::Account;
use crate::cluster::Cluster;
use crate::installation::{Installation, InstallationError, PgVersion};
use crate::keeper::{Answer, Keeper};
use crate::options::Options;
use crate::random;

/// Ports to choose from: below those that Linux, macOS and BSD hand out to outgoing connections, so that nothing takes
/// a server's port while it restarts.
const PORTS: std::ops::Range<u16> = 15_000..32_000;

/// How often another port is tried when one is taken between the look and the start.
const PORT_ATTEMPTS: usize = 20;

/// A running PostgreSQL server that belongs to this process and ends with it.
///
/// Dropping it stops the server and removes its data, and so does the end of the process, even by `kill -9`.
pub struct PrivateServer {
    installation: Installation,
    cluster: Cluster,
    port: u16,
    directory: PathBuf,
    /// Shared with the thread that waits for the keeper's answer.
    keeper: Arc<Mutex<Keeper>>,
}

/// How a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Sessions are ended and the data is written back.
    Fast,
    /// As in a crash: the next start recovers from the log.
    Immediate,
}

/// A server that was left running on purpose.
#[derive(Clone, Debug)]
pub struct KeptServer {
    /// How to connect to it, as superuser.
    pub dsn: String,
    /// The directory with its data and its log.
    pub directory: PathBuf,
    /// A shell command that stops it and removes the directory.
    pub stop_command: String,
}

/// A private server could not be started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// There is no PostgreSQL to start.
    #[error(transparent)]
    Installation(#[from] InstallationError),
    /// The server's directory or its keeper could not be made.
    #[error("cannot set up a directory for PostgreSQL: {0}")]
    Setup(#[source] io::Error),
    /// A step failed.
    #[error("PostgreSQL failed to {step}: {log}")]
    Step {
        /// What was asked: create, start or stop.
        step: &'static str,
        /// The last line of the log.
        log: String,
    },
    /// The process that controls the server was killed. The server is stopped when this value's owner drops it.
    #[error("the process that keeps the private PostgreSQL is gone: {0}")]
    KeeperGone(#[source] io::Error),
}

impl PrivateServer {
    /// Starts a new, empty server.
    ///
    /// Takes about a second; a first fetch of the binaries longer. Must be called in a tokio runtime.
    ///
    /// # Errors
    ///
    /// There is no PostgreSQL, it cannot be fetched, or it does not start: the message then holds its last words.
    ///
    /// # Cancel safety
    ///
    /// A start that is given up goes on in the background, and the server is stopped as soon as it runs.
    pub async fn start(options: Options) -> Result<Self, ServerError> {
        blocking(move || Self::start_blocking(&options)).await
    }

    /// [`start`](Self::start) for callers without a runtime; it blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_blocking(options: &Options) -> Result<Self, ServerError> {
        let installation = options.source.resolve()?;
        let account = Account::for_this_process()
            .map_err(InstallationError::Accounts)?
            .ok_or(InstallationError::NoAccount)?;
        let password = random::token().map_err(ServerError::Setup)?;
        let configuration = options.configuration(&installation);
        let mut files = vec![("password", password.as_str()), ("server.conf", configuration.as_str())];
        files.extend(options.files.iter().map(|(name, content)| (*name, content.as_str())));
        let mut keeper =
            Keeper::spawn(&account, installation.bin_dir(), &files).map_err(ServerError::Setup)?;

        ask(&mut keeper, "create", options.initdb)?;
        let port = start_on_a_free_port(&mut keeper)?;
        Ok(Self {
            cluster: Cluster::at(format!("postgres://postgres:{password}@127.0.0.1:{port}/postgres")),
            directory: keeper.directory().to_owned(),
            keeper: Arc::new(Mutex::new(keeper)),
            installation,
            port,
        })
    }

    /// How to connect to the maintenance database `postgres`, as superuser.
    pub fn dsn(&self) -> &str {
        self.cluster.dsn()
    }

    /// The server as a place for databases.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The TCP port on 127.0.0.1, the same after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's version.
    pub fn version(&self) -> PgVersion {
        self.installation.version()
    }

    /// The directory of the server's programs.
    pub fn bin_dir(&self) -> &Path {
        self.installation.bin_dir()
    }

    /// The server's data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// The server's log.
    pub fn log_path(&self) -> PathBuf {
        self.directory.join("server.log")
    }

    /// The process id of the server's first process.
    ///
    /// # Errors
    ///
    /// The server does not run.
    pub fn pid(&self) -> io::Result<u32> {
        let file = fs::read_to_string(self.data_dir().join("postmaster.pid"))?;
        file.lines()
            .next()
            .and_then(|line| line.parse().ok())
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The process id of the keeper, the helper that stops the server when this process ends.
    pub fn keeper_id(&self) -> u32 {
        lock(&self.keeper).id()
    }

    /// Stops the server and starts it again on the same port.
    ///
    /// # Errors
    ///
    /// The server does not stop or does not start.
    ///
    /// # Cancel safety
    ///
    /// The step in progress goes on in the background; the server may be left halted.
    pub async fn restart(&self, shutdown: Shutdown) -> Result<(), ServerError> {
        self.halt(shutdown).await?;
        self.resume().await
    }

    /// Stops the server and keeps its data, until [`resume`](Self::resume).
    ///
    /// # Errors
    ///
    /// The server does not run or does not stop within a minute.
    ///
    /// # Cancel safety
    ///
    /// The stop goes on in the background.
    pub async fn halt(&self, shutdown: Shutdown) -> Result<(), ServerError> {
        let mode = match shutdown {
            Shutdown::Fast => "fast",
            Shutdown::Immediate => "immediate",
        };
        self.ask("stop", mode.to_owned()).await
    }

    /// Starts a halted server again on the same port.
    ///
    /// # Errors
    ///
    /// The server runs already, or does not start within a minute.
    ///
    /// # Cancel safety
    ///
    /// The start goes on in the background.
    pub async fn resume(&self) -> Result<(), ServerError> {
        self.ask("start", self.port.to_string()).await
    }

    /// Stops the server and removes its data. Dropping the value does the same and tells nobody of a failure.
    ///
    /// # Errors
    ///
    /// The keeper could not be waited for.
    ///
    /// # Cancel safety
    ///
    /// The stop goes on in the background.
    pub async fn stop(self) -> Result<(), ServerError> {
        blocking(move || lock(&self.keeper).clean_up().map_err(ServerError::KeeperGone)).await
    }

    /// Leaves the server running, beyond the end of this process.
    ///
    /// # Errors
    ///
    /// The keeper is gone; the server is stopped.
    ///
    /// # Cancel safety
    ///
    /// The server is left running.
    pub async fn keep(self) -> Result<KeptServer, ServerError> {
        blocking(move || {
            let mut keeper = lock(&self.keeper);
            keeper.leave().map_err(ServerError::KeeperGone)?;
            let directory = self.directory.display();
            let stop = format!("'{}/pg_ctl' stop -D '{directory}/data'", self.bin_dir().display());
            Ok(KeptServer {
                dsn: self.dsn().to_owned(),
                stop_command: format!("{} && rm -r '{directory}'", keeper.account().shell_line(&stop)),
                directory: self.directory.clone(),
            })
        })
        .await
    }

    async fn ask(&self, step: &'static str, argument: String) -> Result<(), ServerError> {
        let keeper = Arc::clone(&self.keeper);
        blocking(move || ask(&mut lock(&keeper), step, &argument)).await
    }
}

/// Runs on a thread where it may block. A panic goes on in the caller.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// A panic in another thread cannot have left the keeper in a worse state than gone.
fn lock(keeper: &Mutex<Keeper>) -> std::sync::MutexGuard<'_, Keeper> {
    keeper.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ask(keeper: &mut Keeper, step: &'static str, argument: &str) -> Result<(), ServerError> {
    match keeper.ask(&format!("{step} {argument}")).map_err(ServerError::KeeperGone)? {
        Answer::Done => Ok(()),
        Answer::Failed => Err(ServerError::Step { step, log: last_words(keeper.directory()) }),
    }
}

/// Starts the server on a random port. Another program can take the port between the look and the start.
fn start_on_a_free_port(keeper: &mut Keeper) -> Result<u16, ServerError> {
    let mut attempts = 1;
    loop {
        let port = free_port();
        match ask(keeper, "start", &port.to_string()) {
            Ok(()) => return Ok(port),
            Err(error) if attempts == PORT_ATTEMPTS || !port_was_taken(keeper.directory()) => {
                return Err(error);
            }
            Err(_) => attempts += 1,
        }
    }
}

/// A port that nobody listens on now; if all those looked at are taken, the last one, for PostgreSQL to complain about.
fn free_port() -> u16 {
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    (0..100).map(|_| fastrand::u16(PORTS)).find(free).unwrap_or(PORTS.start)
}

fn port_was_taken(directory: &Path) -> bool {
    fs::read_to_string(directory.join("server.log"))
        .is_ok_and(|log| log.lines().rev().take(8).any(|line| line.contains("Address already in use")))
}

/// What PostgreSQL said last: the server's own log if it got as far as that, else the output of its tools.
fn last_words(directory: &Path) -> String {
    ["server.log", "keeper.log"]
        .iter()
        .filter_map(|name| fs::read_to_string(directory.join(name)).ok())
        .find_map(|log| complaint(&log))
        .unwrap_or_else(|| "it said nothing".to_owned())
}

/// The last failure in a log, with the line before it, which often has the reason. Without a failure, the last line.
fn complaint(log: &str) -> Option<String> {
    let lines: Vec<&str> = log
        .lines()
        .map(|line| line.split_once("] ").map_or(line, |(_prefix, message)| message).trim())
        .filter(|line| !line.is_empty() && !line.starts_with("HINT:"))
        .collect();
    let failure = lines.iter().rposition(|line| line.contains("FATAL:") || line.contains("error:"));
    match failure {
        Some(line) => Some(lines[line.saturating_sub(1)..=line].join("; ")),
        None => lines.last().map(ToString::to_string),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_reported_with_its_reason() {
        let log = "2026-12-01 03:02:17.133 UTC [7] LOG:  starting PostgreSQL\n\
                   2026-12-01 03:02:17.133 UTC [7] LOG:  invalid value for parameter \"shared_buffers\": \"a lot\"\n\
                   2026-12-01 03:02:17.133 UTC [7] HINT:  Valid units for this parameter are \"B\".\n\
                   2026-12-01 03:02:17.133 UTC [7] FATAL:  configuration file contains errors\n";
        let reported = complaint(log).unwrap();
        assert!(reported.starts_with("LOG:  invalid value"), "{reported}");
        assert!(reported.ends_with("FATAL:  configuration file contains errors"), "{reported}");
        assert_eq!(complaint("initdb: error: no\nmore\n").unwrap(), "initdb: error: no");
        assert_eq!(complaint("\nthe last line\n\n").unwrap(), "the last line");
        assert_eq!(complaint(""), None);
    }
}
