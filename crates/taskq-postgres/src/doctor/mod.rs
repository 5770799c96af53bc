//! Looking for what needs a person: in the schema, in the server around it, in how taskq is used.
//!
//! Each check reads; none changes anything. It says that all is well, or what is wrong and what to do about it.

mod archive;
mod hooks;
mod probe;
mod server;
mod usage;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use taskq_core::store::StoreError;

use self::probe::Probe;
use crate::connect::ConnectOptions;
use crate::dsn::Dsn;
use crate::migrate::Migrator;
use crate::schema::SchemaName;
use crate::store::PostgresStore;

/// Examines one schema and the server that holds it.
///
/// ```no_run
/// # async fn example() -> Result<(), taskq_core::store::StoreError> {
/// use taskq_postgres::{Doctor, SchemaName, Verdict};
///
/// let diagnoses = Doctor::new("postgres://localhost/app", SchemaName::default())?.examine().await?;
/// let needs_somebody = diagnoses.iter().any(|diagnosis| diagnosis.verdict == Verdict::Problem);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Doctor {
    text: String,
    dsn: Dsn,
    schema: SchemaName,
    limits: Limits,
    clock: fn() -> Timestamp,
}

/// From where on something needs a person.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// How far this machine's clock and the server's may be apart. Default 5 s.
    pub clock_skew: Duration,
    /// How long a transaction, prepared or not, may be open. Default 5 min.
    pub transaction_age: Duration,
    /// How many dead rows of a table are no matter. Default 100,000.
    pub dead_rows: u64,
    /// How long a table with more of them may go without a vacuum. Default 15 min.
    pub vacuum_age: Duration,
    /// How many bytes of the write-ahead log a slot that nobody reads may keep. Default 1 GiB.
    pub slot_bytes: u64,
    /// How long what is due may wait for a sweep. Default 2 min.
    pub sweep_delay: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clock_skew: Duration::from_secs(5),
            transaction_age: Duration::from_mins(5),
            dead_rows: 100_000,
            vacuum_age: Duration::from_mins(15),
            slot_bytes: 1 << 30,
            sweep_delay: Duration::from_mins(2),
        }
    }
}

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Diagnosis {
    /// The check, one word.
    pub check: &'static str,
    /// How serious it is.
    pub verdict: Verdict,
    /// What was found, in one line.
    pub message: String,
    /// What to do about it, in one line.
    pub remedy: Option<String>,
}

/// How serious a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All is well.
    Ok,
    /// It could not be looked at in full.
    Unknown,
    /// A person is needed.
    Problem,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Problem => "problem",
        })
    }
}

impl Diagnosis {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Ok, message: message.into(), remedy: None }
    }

    fn unknown(check: &'static str, message: impl Into<String>, remedy: Option<String>) -> Self {
        Self { check, verdict: Verdict::Unknown, message: message.into(), remedy }
    }

    fn problem(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Problem, message: message.into(), remedy: Some(remedy.into()) }
    }
}

impl Doctor {
    /// Makes a doctor for a schema of the database that `dsn` names.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] and [`StoreError::Unsupported`] for a DSN that cannot be read.
    pub fn new(dsn: &str, schema: SchemaName) -> Result<Self, StoreError> {
        Ok(Self {
            text: dsn.to_owned(),
            dsn: dsn.parse()?,
            schema,
            limits: Limits::default(),
            clock: system_now,
        })
    }

    /// Sets from where on something needs a person.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Reads this machine's time elsewhere, as tests do.
    #[must_use]
    pub const fn with_clock(mut self, clock: fn() -> Timestamp) -> Self {
        self.clock = clock;
        self
    }

    /// Runs every check, those of the schema first. What a check may not look at is told as unknown.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] and [`StoreError::Refused`] when there is no connection, [`StoreError::Schema`] when the
    /// schema is missing, too old or too new.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn examine(&self) -> Result<Vec<Diagnosis>, StoreError> {
        let probe = Probe::open(&self.dsn, &self.schema).await?;
        let mut found = self.grants(&probe).await?;
        let may_read = found.iter().all(|diagnosis| diagnosis.verdict == Verdict::Ok);
        let options = ConnectOptions::new().schema(self.schema.clone());
        let store = match PostgresStore::connect(&self.text, options).await {
            Ok(store) => Some(store),
            Err(StoreError::Denied { .. }) if !may_read => None,
            Err(error) => return Err(error),
        };
        found.splice(0..0, check("schema", self.schema_drift().await, may_read)?);
        found.extend(check("settings", self.settings(store.as_deref()).await, may_read)?);
        found.extend(check("isolation", self.isolation(&probe).await, may_read)?);
        found.extend(check("pooler", self.pooler(&probe).await, may_read)?);
        found.extend(check("clock", self.clock(&probe).await, may_read)?);
        found.extend(check("autovacuum", self.autovacuum(&probe).await, may_read)?);
        found.extend(check("dead_rows", self.dead_rows(&probe).await, may_read)?);
        found.extend(check("transactions", self.transactions(&probe).await, may_read)?);
        found.extend(check("prepared", self.prepared(&probe).await, may_read)?);
        found.extend(check("slots", self.slots(&probe).await, may_read)?);
        found.extend(check("sweeps", self.sweeps(store.as_deref()).await, may_read)?);
        found.extend(check("archive", self.archive(&probe).await, may_read)?);
        found.extend(check("unserved", self.unserved(store.as_deref()).await, may_read)?);
        found.extend(check("events", self.events(&probe).await, may_read)?);
        found.extend(check("hooks", self.hooks(&probe).await, may_read)?);
        Ok(found)
    }

    async fn schema_drift(&self) -> Result<Vec<Diagnosis>, StoreError> {
        let migrator = Migrator::new(&self.text, self.schema.clone()).map_err(of_migration)?;
        let findings = migrator.verify().await.map_err(of_migration)?;
        if findings.is_empty() {
            return Ok(vec![Diagnosis::ok("schema", "the schema is what this program applied")]);
        }
        let remedy = "put back what was changed by hand: `taskq migrate up` for functions of another version, else \
                      from a backup or by the file's own SQL";
        let problem =
            |finding: &crate::migrate::Finding| Diagnosis::problem("schema", finding.to_string(), remedy);
        Ok(findings.iter().map(problem).collect())
    }
}

/// A check that may not look is told as unknown where it is known already that privileges lack.
fn check(
    name: &'static str,
    found: Result<Vec<Diagnosis>, StoreError>,
    may_read: bool,
) -> Result<Vec<Diagnosis>, StoreError> {
    match found {
        Err(error @ StoreError::Denied { .. }) if !may_read => {
            Ok(vec![Diagnosis::unknown(name, format!("cannot be looked at: {error}"), None)])
        }
        found => found,
    }
}

fn of_migration(error: crate::migrate::MigrateError) -> StoreError {
    match error {
        crate::migrate::MigrateError::Store(error) => error,
        crate::migrate::MigrateError::Newer(problem) => StoreError::Schema(problem),
        // What is behind a pooler is told by the check for it.
        error => StoreError::Database { sqlstate: "00000".to_owned(), message: error.to_string() },
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place where this machine's clock enters the doctor")]
fn system_now() -> Timestamp {
    Timestamp::now()
}
