//! Where the database is and how to reach it, as libpq reads it.

mod given;
mod passfile;
mod server;
mod text;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use taskq_core::store::StoreError;
use tokio_postgres::config::ChannelBinding;

use self::given::{Environment, Given, OfProcess};
use self::passfile::Wanted;
pub(crate) use self::server::Server;
use crate::password::PasswordCallback;
use crate::role::Role;
use crate::stream::Liveness;
use crate::tls::{Protocols, SslMode, Tls, Trust};

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

/// Which servers will do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    Any,
    ReadWrite,
    ReadOnly,
    Primary,
    Standby,
    PreferStandby,
}

/// A data source name that has been understood.
#[derive(Clone)]
pub(crate) struct Dsn {
    config: tokio_postgres::Config,
    hosts: Vec<Server>,
    random: bool,
    target: Target,
    tls: Tls,
    liveness: Liveness,
    /// `None` is for ever.
    connect_timeout: Option<Duration>,
    passfile: Option<PassFile>,
    callback: Option<PasswordCallback>,
    name: Option<String>,
    options: Option<String>,
    /// Who connects when the DSN does not say, for the password file.
    login: Option<String>,
}

/// A password file, and whether somebody asked for it or it is just looked for.
#[derive(Clone)]
struct PassFile {
    path: PathBuf,
    is_named: bool,
}

impl Dsn {
    /// What a session of one role says at its start; `settings` come last, since later ones win.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when the password file cannot be used, [`StoreError::Password`] when the callback fails.
    pub(crate) async fn config(
        &self,
        server: &Server,
        role: Role,
        settings: Option<&str>,
    ) -> Result<tokio_postgres::Config, StoreError> {
        let mut config = self.config.clone();
        config.application_name(format!("{}:{}", self.name.as_deref().unwrap_or("taskq"), role.as_str()));
        let options =
            format!("{}{}", self.options.as_deref().unwrap_or_default(), settings.unwrap_or_default());
        if !options.is_empty() {
            config.options(options.trim_start());
        }
        if let Some(callback) = &self.callback {
            config.password(callback.ask().await?);
        } else if config.get_password().is_none()
            && let Some(password) = self.password_on_file(server)?
        {
            config.password(password);
        }
        Ok(config)
    }

    fn password_on_file(&self, server: &Server) -> Result<Option<String>, StoreError> {
        let Some(PassFile { path, is_named }) = &self.passfile else { return Ok(None) };
        if !is_named && !path.exists() {
            return Ok(None);
        }
        let user = self.config.get_user().or(self.login.as_deref()).unwrap_or_default();
        let wanted = Wanted {
            host: server.name(),
            port: server.port(),
            database: self.config.get_dbname().unwrap_or(user),
            user,
        };
        match passfile::look_up(path, &wanted) {
            Ok(password) => Ok(password),
            Err(message) if *is_named => Err(StoreError::Refused { message }),
            Err(message) => {
                // Nobody asked for it, and the server may not ask for a password.
                tracing::warn!("{message}; it is not used");
                Ok(None)
            }
        }
    }

    /// The servers, in the order in which they are tried.
    pub(crate) fn hosts(&self) -> Vec<&Server> {
        let mut hosts: Vec<_> = self.hosts.iter().collect();
        if self.random {
            fastrand::shuffle(&mut hosts);
        }
        hosts
    }

    /// Which of them will do.
    pub(crate) const fn target(&self) -> Target {
        self.target
    }

    /// How connections are encrypted.
    pub(crate) const fn tls(&self) -> &Tls {
        &self.tls
    }

    /// How connections find out that the other side is gone.
    pub(crate) const fn liveness(&self) -> &Liveness {
        &self.liveness
    }

    /// How long one attempt to reach one address may take.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.connect_timeout.unwrap_or(Duration::from_hours(24))
    }

    /// How long all attempts to connect may take together.
    pub(crate) fn connect_deadline(&self) -> Duration {
        // Each server may be tried twice, with and without encryption.
        let attempts = u32::try_from(self.hosts.len().max(1) * 2).unwrap_or(u32::MAX);
        let each = self.connect_timeout().saturating_add(HANDSHAKE_TIMEOUT / 2);
        let asking = self.callback.as_ref().map_or(Duration::ZERO, PasswordCallback::patience);
        each.saturating_add(asking).saturating_mul(attempts)
    }

    /// Asks for a password at each connect.
    #[must_use]
    pub(crate) fn with_password_callback(mut self, callback: Option<PasswordCallback>) -> Self {
        self.callback = callback;
        self
    }

    /// The servers, for messages: never the password.
    pub(crate) fn servers(&self) -> String {
        let servers: Vec<_> = self.hosts.iter().map(ToString::to_string).collect();
        servers.join(", ")
    }

    fn understand(text: &str, environment: &dyn Environment) -> Result<Self, StoreError> {
        let refuse = |problem: String| StoreError::invalid(format!("the DSN cannot be read: {problem}"));
        let mut given = Given::collect(text, environment).map_err(refuse)?;
        let dsn = Self::from_given(&mut given, environment).map_err(refuse)?;
        let left: Vec<_> = given.rest().map(|(option, source)| format!("{option} (from {source})")).collect();
        if !left.is_empty() {
            let message =
                format!("the DSN has options that are unknown or not supported: {}", left.join(", "));
            return Err(StoreError::Unsupported { index: None, message });
        }
        if dsn.hosts.is_empty() {
            return Err(StoreError::invalid("the DSN names no server: add a host, or set PGHOST"));
        }
        Ok(dsn)
    }

    fn from_given(given: &mut Given, environment: &dyn Environment) -> Result<Self, String> {
        let mut config = tokio_postgres::Config::new();
        if let Some(user) = given.take("user") {
            config.user(user);
        }
        if let Some(name) = given.take("dbname") {
            config.dbname(name);
        }
        if let Some(password) = given.take("password") {
            config.password(password);
        }
        let binding = given.read("channel_binding", |value| match value {
            "disable" => Ok(ChannelBinding::Disable),
            "prefer" => Ok(ChannelBinding::Prefer),
            "require" => Ok(ChannelBinding::Require),
            _ => Err("it is none of disable, prefer, require".to_owned()),
        })?;
        config.channel_binding(binding.unwrap_or(ChannelBinding::Prefer));
        // What is sent is UTF-8, and nothing is sent by way of Kerberos.
        given.read("client_encoding", |value| match value.to_ascii_lowercase().as_str() {
            "utf8" | "utf-8" | "auto" => Ok(()),
            _ => Err("only UTF8 is supported".to_owned()),
        })?;
        given.read("gssencmode", |value| match value {
            "disable" | "prefer" => Ok(()),
            _ => Err("encryption by GSSAPI is not supported".to_owned()),
        })?;
        let random = given.read("load_balance_hosts", |value| match value {
            "disable" => Ok(false),
            "random" => Ok(true),
            _ => Err("it is none of disable, random".to_owned()),
        })?;
        let target = given.read("target_session_attrs", |value| match value {
            "any" => Ok(Target::Any),
            "read-write" => Ok(Target::ReadWrite),
            "read-only" => Ok(Target::ReadOnly),
            "primary" => Ok(Target::Primary),
            "standby" => Ok(Target::Standby),
            "prefer-standby" => Ok(Target::PreferStandby),
            _ => Err("it is none of any, read-write, read-only, primary, standby, prefer-standby".to_owned()),
        })?;
        let named = given.take("passfile").map(|path| PassFile { path: path.into(), is_named: true });
        let own = || environment.in_home(".pgpass").map(|path| PassFile { path, is_named: false });
        let connect_timeout = given.read("connect_timeout", |value| {
            let seconds: i64 = value.parse().map_err(|_| "it is no number of seconds".to_owned())?;
            // As libpq has it: nothing and less is for ever.
            Ok(u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs))
        })?;
        let tls = tls(given, environment)?;
        let fallback = given.take("fallback_application_name");
        Ok(Self {
            hosts: server::read(given)?,
            random: random.unwrap_or(false),
            target: target.unwrap_or(Target::Any),
            tls,
            liveness: liveness(given)?,
            connect_timeout: connect_timeout.unwrap_or(Some(CONNECT_TIMEOUT)),
            passfile: named.or_else(own),
            callback: None,
            name: given.take("application_name").or(fallback),
            options: given.take("options"),
            login: environment.variable("USER").or_else(|| environment.variable("LOGNAME")),
            config,
        })
    }
}

fn tls(given: &mut Given, environment: &dyn Environment) -> Result<Tls, String> {
    let is_system = |root: &Option<String>| root.as_deref() == Some("system");
    let root = given.take("sslrootcert");
    let mode = given.read("sslmode", SslMode::from_word)?;
    let mode = mode.unwrap_or(if is_system(&root) { SslMode::VerifyFull } else { SslMode::Prefer });
    if is_system(&root) && mode != SslMode::VerifyFull {
        return Err(
            "sslrootcert: the system's roots vouch for too many servers, so they need sslmode=verify-full"
                .to_owned(),
        );
    }
    let is_direct = given.read("sslnegotiation", |value| match value {
        "postgres" => Ok(false),
        "direct" if mode >= SslMode::Require => Ok(true),
        "direct" => Err("direct needs sslmode=require or a stricter one".to_owned()),
        _ => Err("it is none of postgres, direct".to_owned()),
    })?;
    let default_root = environment.in_home(".postgresql/root.crt");
    let trust = match (mode, root) {
        (SslMode::Disable | SslMode::Allow | SslMode::Prefer, _) => Trust::Anybody,
        (_, Some(root)) if root == "system" => Trust::System,
        (_, Some(root)) => Trust::File(root.into()),
        // As libpq has it, for the sake of those who put a root there.
        (SslMode::Require, None) => match default_root.filter(|path| path.exists()) {
            Some(root) => Trust::File(root),
            None => Trust::Anybody,
        },
        (SslMode::VerifyCa | SslMode::VerifyFull, None) => Trust::File(default_root.ok_or_else(|| {
            "sslrootcert: there is no home directory that could have a root certificate".to_owned()
        })?),
    };
    let version = |value: &str| match value {
        "TLSv1" | "TLSv1.1" | "TLSv1.2" => Ok(2),
        "TLSv1.3" => Ok(3),
        _ => Err("it is none of TLSv1, TLSv1.1, TLSv1.2, TLSv1.3".to_owned()),
    };
    let least = given.read("ssl_min_protocol_version", version)?.unwrap_or(2);
    let most = given
        .read("ssl_max_protocol_version", |value| match value {
            "TLSv1" | "TLSv1.1" => Err("versions before TLSv1.2 are not supported".to_owned()),
            value => version(value),
        })?
        .unwrap_or(3);
    if least > most {
        return Err("ssl_min_protocol_version is later than ssl_max_protocol_version".to_owned());
    }
    let uses_certificate = given.read("sslcertmode", |value| match value {
        "disable" => Ok(false),
        "allow" => Ok(true),
        _ => Err("it is none of disable, allow".to_owned()),
    })?;
    let certificate = given.take("sslcert").map(PathBuf::from);
    let key = given.take("sslkey").map(PathBuf::from);
    let default_certificate =
        || environment.in_home(".postgresql/postgresql.crt").filter(|path| path.exists());
    let certificate = certificate.or_else(default_certificate).filter(|_| uses_certificate.unwrap_or(true));
    let default_key = || environment.in_home(".postgresql/postgresql.key");
    let identity = match certificate {
        Some(certificate) => {
            let key = key.or_else(default_key);
            Some((certificate, key.ok_or_else(|| "sslcert: there is no sslkey".to_owned())?))
        }
        None => None,
    };
    let sends_name = given.read("sslsni", |value| match value {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("it is neither 0 nor 1".to_owned()),
    })?;
    given.read("sslcompression", |value| match value {
        "0" => Ok(()),
        _ => Err("compression is not supported".to_owned()),
    })?;
    let protocols = match (least, most) {
        (2, 2) => Protocols::Two,
        (3, _) => Protocols::Three,
        _ => Protocols::Both,
    };
    Ok(Tls {
        mode,
        trust,
        identity,
        protocols,
        sends_name: sends_name.unwrap_or(true),
        is_direct: is_direct.unwrap_or(false),
    })
}

fn liveness(given: &mut Given) -> Result<Liveness, String> {
    // Zero and less leave it to the system, in our case to the defaults above.
    let seconds = |value: &str| {
        let seconds: i64 = value.parse().map_err(|_| "it is no number of seconds".to_owned())?;
        Ok(u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs))
    };
    let keepalives = given.read("keepalives", |value| match value {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("it is neither 0 nor 1".to_owned()),
    })?;
    let retries = given.read("keepalives_count", |value| {
        value.parse::<u32>().map_err(|_| "it is no number of probes".to_owned())
    })?;
    let unacknowledged = given.read("tcp_user_timeout", |value| {
        value.parse().map(Duration::from_millis).map_err(|_| "it is no number of milliseconds".to_owned())
    })?;
    Ok(Liveness {
        keepalives: keepalives.unwrap_or(true),
        idle: given.read("keepalives_idle", seconds)?.flatten().unwrap_or(KEEPALIVE_IDLE),
        interval: given.read("keepalives_interval", seconds)?.flatten().unwrap_or(KEEPALIVE_INTERVAL),
        retries: retries.filter(|retries| *retries > 0).unwrap_or(KEEPALIVE_RETRIES),
        unacknowledged: unacknowledged.unwrap_or(UNACKNOWLEDGED),
    })
}

impl FromStr for Dsn {
    type Err = StoreError;

    /// Understands a URL (`postgres://…`) or libpq's `key=value` form; what it leaves open, the environment says.
    fn from_str(text: &str) -> Result<Self, StoreError> {
        Self::understand(text, &OfProcess)
    }
}

impl fmt::Debug for Dsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dsn").field("servers", &self.servers()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
