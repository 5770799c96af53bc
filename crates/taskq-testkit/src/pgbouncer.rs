//! A pooler between a test and its server: `pgbouncer`, as the distribution has it.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;
use tokio_postgres::config::Host;

use crate::account::Account;
use crate::cluster::Cluster;
use crate::random;
use crate::shared::shared_server;

/// Where distributions put it.
const PROGRAMS: [&str; 3] = ["pgbouncer", "/usr/sbin/pgbouncer", "/usr/local/bin/pgbouncer"];

/// Below those that systems hand out to outgoing connections, beside those of private servers.
const PORTS: std::ops::Range<u16> = 11_000..15_000;
const PORT_ATTEMPTS: usize = 20;
/// How long it may take to listen.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs the pooler until standard input ends, which is when its owner is gone, and removes its directory.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM PIPE
"$1" "$2/pgbouncer.ini" >"$2/output" 2>&1 </dev/null &
pooler=$!
cat >/dev/null
kill "$pooler" 2>/dev/null
wait "$pooler"
rm -rf "$2"
"#;

/// How a pooler hands its sessions out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolMode {
    /// To a client for as long as it stays.
    Session,
    /// To a client for one transaction.
    Transaction,
    /// To a client for one statement; transactions are refused.
    Statement,
}

/// A running `pgbouncer` that belongs to this process and ends with it. It lets everybody in, on loopback only, as the
/// server's superuser.
pub struct PgBouncer {
    server: Cluster,
    port: u16,
    process: Child,
}

/// A pooler could not be started.
#[derive(Debug, thiserror::Error)]
pub enum PgBouncerError {
    /// It is not installed.
    #[error("there is no pgbouncer: install it (Debian: apt-get install pgbouncer)")]
    Missing,
    /// Its files could not be made, or its process not started.
    #[error("cannot set up pgbouncer: {0}")]
    Setup(#[from] io::Error),
    /// The server's DSN is none that a pooler can be configured with.
    #[error("the DSN of the server names no TCP host")]
    Server,
    /// It ended or did not listen in time.
    #[error("pgbouncer does not run: {0}")]
    Start(String),
}

impl PgBouncer {
    /// Starts a pooler before a server, with at most `size` sessions for each database. `settings` are lines of its
    /// configuration.
    ///
    /// Blocks until it listens.
    ///
    /// # Errors
    ///
    /// It is not installed, or does not start: the message then holds its last words.
    pub fn start(
        server: &Cluster,
        mode: PoolMode,
        size: u32,
        settings: &[&str],
    ) -> Result<Self, PgBouncerError> {
        let program = program().ok_or(PgBouncerError::Missing)?;
        let account = Account::for_this_process()?.unwrap_or(Account::Caller);
        let mut attempts = 1;
        loop {
            let port = fastrand::u16(PORTS);
            if TcpListener::bind(("127.0.0.1", port)).is_err() {
                continue;
            }
            let text = configuration(server, mode, size, port, settings)?;
            match start_on(&program, &account, &text, port) {
                Ok(process) => return Ok(Self { server: server.clone(), port, process }),
                // Somebody else was faster.
                Err(PgBouncerError::Start(log)) if log.contains("in use") && attempts < PORT_ATTEMPTS => {
                    attempts += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How to connect to `database` of its server through it.
    pub fn dsn_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// The server behind it.
    pub fn server(&self) -> &Cluster {
        &self.server
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // Best effort: nobody is left to hear of a failure.
        let _ = self.process.wait();
    }
}

/// The pooler in transaction mode before the [shared server](shared_server), shared by this process's tests: two sessions
/// for each database, so that five connections of a store have to share them.
///
/// # Panics
///
/// It cannot be started: no test can go on.
pub async fn shared_pgbouncer() -> &'static PgBouncer {
    static SHARED: OnceCell<PgBouncer> = OnceCell::const_new();
    let start = async || {
        let server = shared_server().await;
        let starting = move || PgBouncer::start(server, PoolMode::Transaction, 2, &[]);
        let started = tokio::task::spawn_blocking(starting).await;
        match started.expect("starting does not panic") {
            Ok(pooler) => pooler,
            Err(error) => panic!("{error}"),
        }
    };
    SHARED.get_or_init(start).await
}

fn program() -> Option<PathBuf> {
    PROGRAMS.iter().map(PathBuf::from).find(|program| {
        let look =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        look.is_ok_and(|status| status.success())
    })
}

fn configuration(
    server: &Cluster,
    mode: PoolMode,
    size: u32,
    port: u16,
    settings: &[&str],
) -> Result<String, PgBouncerError> {
    let config: tokio_postgres::Config = server.dsn().parse().map_err(|_| PgBouncerError::Server)?;
    let [Host::Tcp(host), ..] = config.get_hosts() else { return Err(PgBouncerError::Server) };
    let quote = |value: &str| format!("'{}'", value.replace('\'', "''"));
    let password = String::from_utf8_lossy(config.get_password().unwrap_or_default()).into_owned();
    let mut text = String::new();
    let lines = [
        "[databases]".to_owned(),
        format!(
            "* = host={} port={} user={} password={}",
            quote(host),
            config.get_ports().first().copied().unwrap_or(5432),
            quote(config.get_user().unwrap_or("postgres")),
            quote(&password),
        ),
        "[pgbouncer]".to_owned(),
        "listen_addr = 127.0.0.1".to_owned(),
        format!("listen_port = {port}"),
        "unix_socket_dir =".to_owned(),
        "auth_type = any".to_owned(),
        format!(
            "pool_mode = {}",
            match mode {
                PoolMode::Session => "session",
                PoolMode::Transaction => "transaction",
                PoolMode::Statement => "statement",
            }
        ),
        format!("default_pool_size = {size}"),
        "max_client_conn = 1000".to_owned(),
        // A database of a test is soon gone.
        "server_idle_timeout = 5".to_owned(),
    ];
    for line in lines.iter().map(String::as_str).chain(settings.iter().copied()) {
        writeln!(text, "{line}").expect("writing to a string cannot fail");
    }
    Ok(text)
}

fn start_on(program: &Path, account: &Account, text: &str, port: u16) -> Result<Child, PgBouncerError> {
    let directory = account.server_root().join(format!("taskq-pgbouncer-{}", random::token()?));
    DirBuilder::new().mode(0o700).create(&directory)?;
    let file = directory.join("pgbouncer.ini");
    fs::write(&file, text)?;
    fs::set_permissions(&file, Permissions::from_mode(0o600))?;
    account.give(&file)?;
    account.give(&directory)?;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", SCRIPT, "sh"]).arg(program).arg(&directory);
    account.apply(&mut command);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // What ends the owner's group, such as Ctrl-C, does not reach it: it ends by its input.
    let mut process = command.process_group(0).spawn()?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let output = fs::read_to_string(directory.join("output")).unwrap_or_default();
        let fatal = output.lines().find(|line| line.contains("FATAL") || line.contains("in use"));
        if fatal.is_none() && output.contains("listening on") && TcpStream::connect(address).is_ok() {
            return Ok(process);
        }
        if let Some(line) = fatal.or_else(|| (Instant::now() > deadline).then_some("it does not listen")) {
            let line = line.to_owned();
            drop(process.stdin.take());
            process.wait()?;
            return Err(PgBouncerError::Start(line));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
