//! The database's settings.

use clap::ArgMatches;
use clap::parser::ValueSource;
use taskq::{ConnectionMode, SchemaName};

use super::given::{Given, Problems, Source};
use crate::cli::DatabaseArgs;
use crate::exit::Failure;

const MISSING: &str = "no database: give --dsn or set TASKQ_PG_DSN, such as postgres://user@host/database";

/// Where the database is.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseSettings {
    /// How to connect.
    pub(crate) dsn: String,
    /// The schema that holds the jobs.
    pub(crate) schema: SchemaName,
    /// How connections are used.
    pub(crate) mode: ConnectionMode,
}

/// The database's settings as given.
#[derive(Clone, Debug)]
pub(crate) struct GivenDatabase {
    /// The DSN.
    pub(crate) dsn: Option<Given<String>>,
    /// The schema.
    pub(crate) schema: Option<Given<String>>,
    /// Whether a pooler is in between.
    pub(crate) pooled: Option<Given<String>>,
}

/// Notes what was given and where. An empty variable counts as not set.
pub(crate) fn given_database(args: &DatabaseArgs, matches: &ArgMatches) -> GivenDatabase {
    GivenDatabase {
        dsn: given(args.dsn.as_ref(), matches, "dsn", "--dsn", "TASKQ_PG_DSN"),
        schema: given(args.schema.as_ref(), matches, "schema", "--schema", "TASKQ_SCHEMA_NAME"),
        pooled: given(args.pooled.as_ref(), matches, "pooled", "--pooled", "TASKQ_PG_POOLED"),
    }
}

/// Notes a value that is a flag or a variable.
pub(super) fn given(
    value: Option<&String>,
    matches: &ArgMatches,
    id: &str,
    flag: &'static str,
    variable: &'static str,
) -> Option<Given<String>> {
    let value = value.cloned()?;
    if matches.value_source(id) == Some(ValueSource::EnvVariable) {
        return (!value.is_empty()).then_some(Given { value, source: Source::Variable(variable) });
    }
    Some(Given::flag(flag, value))
}

/// Checks the database's settings.
pub(crate) fn database(given: GivenDatabase) -> Result<DatabaseSettings, Failure> {
    let mut problems = Problems::default();
    let settings = check(given, &mut problems);
    problems.into_result()?;
    settings.ok_or_else(|| Failure::usage(MISSING))
}

/// Checks the settings for a private server, whose DSN is known.
pub(crate) fn private_database(given: GivenDatabase, dsn: &str) -> Result<DatabaseSettings, Failure> {
    database(GivenDatabase { dsn: Some(Given::flag("--dsn", dsn.to_owned())), ..given })
}

/// Checks the database's settings together with others.
pub(super) fn check(given: GivenDatabase, problems: &mut Problems) -> Option<DatabaseSettings> {
    if given.dsn.is_none() {
        problems.missing(MISSING);
    }
    let schema = match given.schema {
        Some(schema) => problems.check(&schema, |name| SchemaName::new(name)),
        None => Some(SchemaName::default()),
    };
    let mode = match given.pooled {
        Some(pooled) => problems.check(&pooled, |text| mode(text)),
        None => Some(ConnectionMode::Auto),
    };
    Some(DatabaseSettings { dsn: given.dsn?.value, schema: schema?, mode: mode? })
}

fn mode(pooled: &str) -> Result<ConnectionMode, String> {
    match pooled {
        "auto" => Ok(ConnectionMode::Auto),
        "yes" => Ok(ConnectionMode::Pooled),
        "no" => Ok(ConnectionMode::Direct),
        _ => Err(format!("{pooled:?} is none of auto, yes, no")),
    }
}
