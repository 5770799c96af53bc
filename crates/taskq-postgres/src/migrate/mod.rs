//! Migrations: bringing a schema to what this program needs.
//!
//! Files are applied once and recorded in a ledger, the table `schema_migrations`, by their whole name.
//! `pre` files are safe before the new program runs, `post` files only after the old one is gone. Functions
//! are applied as one set whenever the set differs from what the ledger says.

mod embedded;
mod error;
#[cfg(test)]
mod frozen;
mod grants;
mod ledger;
mod plan;
mod run;
mod set;
mod text;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

pub use self::error::MigrateError;
pub use self::grants::GrantedRole;
pub use self::ledger::FunctionsState;
pub(crate) use self::ledger::check;
pub use self::plan::{Mode, Step};
pub use self::set::{MigrationSet, Phase};

use self::ledger::{Entry, FUNCTION, functions_state, unknown};
use self::run::Link;
use crate::dsn::Dsn;
use crate::password::PasswordCallback;
use crate::schema::SchemaName;

/// How long a migration waits for another one, or for the tables it changes.
const PATIENCE: Duration = Duration::from_mins(1);

/// Applies migrations to one schema. Every method opens a connection of its own.
#[derive(Clone, Debug)]
pub struct Migrator {
    dsn: Dsn,
    schema: SchemaName,
    set: MigrationSet,
    patience: Duration,
}

/// What a migration did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Applied {
    /// The steps that were run, in their order. Empty when there was nothing to do.
    pub steps: Vec<String>,
}

/// How a schema stands.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SchemaStatus {
    /// The schema.
    pub schema: String,
    /// Whether it holds a ledger.
    pub exists: bool,
    /// Every migration that the program or the ledger knows, in the order they run.
    pub migrations: Vec<MigrationStatus>,
    /// How its functions relate to the program's.
    pub functions: FunctionsState,
}

/// How one migration stands.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MigrationStatus {
    /// The file.
    pub name: String,
    /// `pre` or `post`.
    pub phase: String,
    /// How it stands.
    pub state: MigrationState,
    /// When it was applied.
    pub applied_at: Option<Timestamp>,
}

/// How one migration stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MigrationState {
    /// It was applied as it is.
    Applied,
    /// It was not applied yet.
    Pending,
    /// It was changed after it had been applied.
    Drifted,
    /// The ledger has it, the program does not.
    Unknown,
}

/// Something that is not as it was applied, or not yet applied.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finding {
    /// There is no ledger.
    Missing,
    /// A migration waits.
    Pending {
        /// The file.
        name: String,
    },
    /// A file was changed after it had been applied.
    Drifted {
        /// The file.
        name: String,
    },
    /// The schema has a migration that the program does not know.
    Unknown {
        /// The file.
        name: String,
    },
    /// The functions are not the program's.
    Functions {
        /// How they relate to them.
        state: FunctionsState,
    },
    /// A function was changed by hand.
    FunctionEdited {
        /// Its name and arguments.
        function: String,
    },
    /// A function is gone.
    FunctionMissing {
        /// Its name and arguments.
        function: String,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the schema has no ledger of migrations"),
            Self::Pending { name } => write!(f, "{name} is not applied"),
            Self::Drifted { name } => write!(f, "{name} was changed after it had been applied"),
            Self::Unknown { name } => write!(f, "{name} is applied and not known to this program"),
            Self::Functions { state: FunctionsState::Newer } => {
                f.write_str("the functions are of a later version")
            }
            Self::Functions { .. } => f.write_str("the functions are not this version's"),
            Self::FunctionEdited { function } => write!(f, "the function {function} was changed by hand"),
            Self::FunctionMissing { function } => write!(f, "the function {function} is gone"),
        }
    }
}

impl Migrator {
    /// Makes a migrator for a schema of the database that `dsn` names.
    ///
    /// # Errors
    /// [`MigrateError::Store`] for a DSN that cannot be read.
    pub fn new(dsn: &str, schema: SchemaName) -> Result<Self, MigrateError> {
        Ok(Self { dsn: dsn.parse()?, schema, set: MigrationSet::embedded().clone(), patience: PATIENCE })
    }

    /// Asks for a password at each connect, in place of the DSN's.
    #[must_use]
    pub fn with_password_callback(mut self, callback: PasswordCallback) -> Self {
        self.dsn = self.dsn.with_password_callback(Some(callback));
        self
    }

    /// Applies another set than the program's own, as tests of upgrades do.
    #[must_use]
    pub fn with_set(mut self, set: MigrationSet) -> Self {
        self.set = set;
        self
    }

    /// Sets how long to wait for another migration, and for each file's locks. Default 60 s.
    #[must_use]
    pub const fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Applies what is not applied yet: of one phase, or all. Safe to repeat and to run many times at once.
    ///
    /// # Errors
    /// [`MigrateError`] says what is in the way. What belongs to the failed file is rolled back, earlier
    /// files stay; a file that drifted or a schema that is newer is found before anything changes.
    ///
    /// # Cancel safety
    /// Safe to drop: the file that is being applied is rolled back, and the next call goes on from there.
    pub async fn up(&self, phase: Option<Phase>) -> Result<Applied, MigrateError> {
        let link = Link::open(&self.dsn, &self.schema).await?;
        let ready = self.steps(&link, phase).await?;
        if ready.is_empty() {
            return Ok(Applied::default());
        }
        link.check_session()?;
        link.lock(self.patience).await?;
        let mut applied = Applied::default();
        // Whoever held the lock before may have done some of it.
        for step in self.steps(&link, phase).await? {
            link.run(&step, self.patience).await?;
            tracing::info!(schema = self.schema.as_str(), step = step.name, "migrated");
            applied.steps.push(step.name);
        }
        link.unlock().await?;
        Ok(applied)
    }

    /// Says what [`up`](Self::up) would do.
    ///
    /// # Errors
    /// As [`up`](Self::up), before it changes anything.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn plan(&self, phase: Option<Phase>) -> Result<Vec<Step>, MigrateError> {
        let link = Link::open(&self.dsn, &self.schema).await?;
        self.steps(&link, phase).await
    }

    /// Returns the SQL that [`up`](Self::up) would run, as a script for `psql` with its entries in the ledger.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn sql(&self, phase: Option<Phase>) -> Result<String, MigrateError> {
        let steps = self.plan(phase).await?;
        Ok(plan::script(&steps, &self.schema, run::lock_key(&self.schema)))
    }

    /// Says how every migration stands.
    ///
    /// # Errors
    /// [`MigrateError::Store`] when the database cannot be asked.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn status(&self) -> Result<SchemaStatus, MigrateError> {
        let link = Link::open(&self.dsn, &self.schema).await?;
        let state = link.state().await?;
        let of_entry = |entry: &Entry, state| MigrationStatus {
            name: entry.name.clone(),
            phase: entry.phase.clone(),
            state,
            applied_at: Some(entry.applied_at),
        };
        let mut migrations: Vec<_> = self
            .set
            .migrations
            .iter()
            .map(|migration| match state.entries.iter().find(|entry| entry.name == migration.name) {
                Some(entry) if entry.checksum == migration.checksum => {
                    of_entry(entry, MigrationState::Applied)
                }
                Some(entry) => of_entry(entry, MigrationState::Drifted),
                None => MigrationStatus {
                    name: migration.name.clone(),
                    phase: migration.phase.to_string(),
                    state: MigrationState::Pending,
                    applied_at: None,
                },
            })
            .collect();
        migrations
            .extend(unknown(&state.entries, &self.set).map(|entry| of_entry(entry, MigrationState::Unknown)));
        Ok(SchemaStatus {
            schema: self.schema.to_string(),
            exists: state.has_ledger,
            migrations,
            functions: functions_state(&state.entries, &self.set, Some(state.major))?,
        })
    }

    /// Finds what is not as it was applied: files, functions edited by hand, functions that are gone.
    ///
    /// # Errors
    /// [`MigrateError::Store`] when the database cannot be asked.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn verify(&self) -> Result<Vec<Finding>, MigrateError> {
        let status = self.status().await?;
        if !status.exists {
            return Ok(vec![Finding::Missing]);
        }
        let mut findings = Vec::new();
        for migration in status.migrations {
            let name = migration.name;
            match migration.state {
                MigrationState::Applied => {}
                MigrationState::Pending => findings.push(Finding::Pending { name }),
                MigrationState::Drifted => findings.push(Finding::Drifted { name }),
                MigrationState::Unknown => findings.push(Finding::Unknown { name }),
            }
        }
        if status.functions != FunctionsState::Current {
            findings.push(Finding::Functions { state: status.functions });
        }
        let link = Link::open(&self.dsn, &self.schema).await?;
        let definitions = link.definitions().await?;
        for entry in link.state().await?.entries.into_iter().filter(|entry| entry.phase == FUNCTION) {
            match definitions.get(&entry.name) {
                Some(definition) if *definition == entry.checksum => {}
                Some(_) => findings.push(Finding::FunctionEdited { function: entry.name }),
                None => findings.push(Finding::FunctionMissing { function: entry.name }),
            }
        }
        Ok(findings)
    }

    async fn steps(&self, link: &Link, phase: Option<Phase>) -> Result<Vec<Step>, MigrateError> {
        plan::plan(&link.state().await?, &self.set, &self.schema, phase)
    }
}
