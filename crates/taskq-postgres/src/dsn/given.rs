//! Where each option comes from: the DSN, a service file, the environment.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;

use super::text::{Pairs, Problem, parse};

/// The environment variables, and the options that they stand for.
const VARIABLES: &[(&str, &str)] = &[
    ("PGHOST", "host"),
    ("PGHOSTADDR", "hostaddr"),
    ("PGPORT", "port"),
    ("PGDATABASE", "dbname"),
    ("PGUSER", "user"),
    ("PGPASSWORD", "password"),
    ("PGPASSFILE", "passfile"),
    ("PGREQUIREAUTH", "require_auth"),
    ("PGCHANNELBINDING", "channel_binding"),
    ("PGOPTIONS", "options"),
    ("PGAPPNAME", "application_name"),
    ("PGSSLMODE", "sslmode"),
    ("PGREQUIRESSL", "requiressl"),
    ("PGSSLNEGOTIATION", "sslnegotiation"),
    ("PGSSLCOMPRESSION", "sslcompression"),
    ("PGSSLCERT", "sslcert"),
    ("PGSSLKEY", "sslkey"),
    ("PGSSLCERTMODE", "sslcertmode"),
    ("PGSSLROOTCERT", "sslrootcert"),
    ("PGSSLCRL", "sslcrl"),
    ("PGSSLCRLDIR", "sslcrldir"),
    ("PGSSLSNI", "sslsni"),
    ("PGREQUIREPEER", "requirepeer"),
    ("PGSSLMINPROTOCOLVERSION", "ssl_min_protocol_version"),
    ("PGSSLMAXPROTOCOLVERSION", "ssl_max_protocol_version"),
    ("PGGSSENCMODE", "gssencmode"),
    ("PGKRBSRVNAME", "krbsrvname"),
    ("PGGSSLIB", "gsslib"),
    ("PGGSSDELEGATION", "gssdelegation"),
    ("PGCONNECT_TIMEOUT", "connect_timeout"),
    ("PGCLIENTENCODING", "client_encoding"),
    ("PGTARGETSESSIONATTRS", "target_session_attrs"),
    ("PGLOADBALANCEHOSTS", "load_balance_hosts"),
];

/// What a process is told by its environment.
pub(super) trait Environment {
    /// The value of a variable; an empty one counts as none.
    fn variable(&self, name: &str) -> Option<String>;

    /// A file in the home directory.
    fn in_home(&self, name: &str) -> Option<PathBuf> {
        self.variable("HOME").map(|home| PathBuf::from(home).join(name))
    }
}

/// The environment of this process.
pub(super) struct OfProcess;

impl Environment for OfProcess {
    fn variable(&self, name: &str) -> Option<String> {
        env::var(name).ok().filter(|value| !value.is_empty())
    }
}

/// The options with their values, and where each came from.
#[derive(Debug)]
pub(super) struct Given(BTreeMap<String, (String, String)>);

impl Given {
    /// Collects them: the DSN comes first, then the service, then the environment.
    pub(super) fn collect(text: &str, environment: &dyn Environment) -> Result<Self, Problem> {
        let mut given = Self(BTreeMap::new());
        // Of one option the last counts.
        for (key, value) in parse(text)? {
            given.0.insert(key, (value, "the DSN".to_owned()));
        }
        // Empty is as if not given, also to hide what the environment says.
        let service = given.take("service").filter(|service| !service.is_empty());
        if let Some(service) = service.or_else(|| environment.variable("PGSERVICE")) {
            let file = given.take("servicefile").or_else(|| environment.variable("PGSERVICEFILE"));
            let (pairs, source) = service_options(&service, file, environment)?;
            given.fill(pairs, &source);
        }
        for (variable, option) in VARIABLES {
            if let Some(value) = environment.variable(variable) {
                given.fill(vec![((*option).to_owned(), value)], variable);
            }
        }
        given.0.retain(|_, (value, _)| !value.is_empty());
        Ok(given)
    }

    fn fill(&mut self, pairs: Pairs, source: &str) {
        for (key, value) in pairs {
            self.0.entry(key).or_insert_with(|| (value, source.to_owned()));
        }
    }

    /// Takes an option out.
    pub(super) fn take(&mut self, option: &str) -> Option<String> {
        self.0.remove(option).map(|(value, _)| value)
    }

    /// Takes an option out and reads it; a refusal names the option and its source, and never its value.
    pub(super) fn read<T>(
        &mut self,
        option: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Problem> {
        let Some((value, source)) = self.0.remove(option) else { return Ok(None) };
        read(&value).map(Some).map_err(|problem| format!("{option} (from {source}): {problem}"))
    }

    /// The options that nobody took, each with its source.
    pub(super) fn rest(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(option, (_, source))| (option.as_str(), source.as_str()))
    }
}

/// Reads a section of a service file: the user's own, else the system's.
fn service_options(
    service: &str,
    file: Option<String>,
    environment: &dyn Environment,
) -> Result<(Pairs, String), Problem> {
    let own = file.map(PathBuf::from).or_else(|| environment.in_home(".pg_service.conf"));
    let system = environment.variable("PGSYSCONFDIR").map(|path| PathBuf::from(path).join("pg_service.conf"));
    for path in [own, system].into_iter().flatten() {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let mut pairs = None;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                if pairs.is_some() {
                    break;
                }
                pairs = (name == service).then(Pairs::new);
            } else if let Some(pairs) = &mut pairs {
                let (key, value) = line
                    .split_once('=')
                    .ok_or_else(|| format!("{}: a line of the service {service} has no =", path.display()))?;
                pairs.push((key.trim_end().to_owned(), value.trim_start().to_owned()));
            }
        }
        if let Some(pairs) = pairs {
            return Ok((pairs, format!("the service {service} in {}", path.display())));
        }
    }
    Err(format!("service: no service file defines {service:?}"))
}
