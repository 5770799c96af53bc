//! What has been applied, and whether it fits.

use jiff::Timestamp;
use taskq_core::store::{SchemaProblem, StoreError};
use tokio_postgres::Row;

use super::set::{MigrationSet, Phase, numbers};
use crate::codec::{Columns, Time};
use crate::schema::SchemaName;

/// The phase of the function set's own entry.
pub(super) const FUNCTIONS: &str = "functions";
/// The phase of the entries of single functions, whose checksum is of their definition as the server has it.
pub(super) const FUNCTION: &str = "function";

/// One line of the ledger.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) version: String,
    pub(super) phase: String,
    pub(super) name: String,
    pub(super) checksum: String,
    pub(super) applied_at: Timestamp,
}

impl Entry {
    pub(super) fn read(row: &Row) -> Result<Self, StoreError> {
        let mut columns = Columns::of(row);
        Ok(Self {
            version: columns.read()?,
            phase: columns.read()?,
            name: columns.read()?,
            checksum: columns.read()?,
            applied_at: columns.read::<Time>()?.0,
        })
    }

    /// Says whether the entry is a migration's.
    pub(super) fn is_migration(&self) -> bool {
        self.phase == Phase::Pre.as_str() || self.phase == Phase::Post.as_str()
    }
}

/// How the functions in the database relate to a set's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FunctionsState {
    /// They are the set's.
    Current,
    /// They were never applied.
    Missing,
    /// They are of an older set, or of another server version.
    Outdated,
    /// They are of a newer set.
    Newer,
}

/// Compares the ledger's function set with the set's. Without a server version only the texts count.
pub(super) fn functions_state(
    entries: &[Entry],
    set: &MigrationSet,
    major: Option<u32>,
) -> Result<FunctionsState, StoreError> {
    let Some(entry) = entries.iter().find(|entry| entry.phase == FUNCTIONS) else {
        return Ok(FunctionsState::Missing);
    };
    let unreadable = || StoreError::Answer {
        message: format!("the ledger's function set has the version {:?}", entry.version),
    };
    let (applied, ours) = (numbers(&entry.version).ok_or_else(unreadable)?, numbers(&set.version));
    if Some(applied) > ours {
        return Ok(FunctionsState::Newer);
    }
    let checksum = set.functions_checksum();
    let is_same = match major {
        Some(major) => entry.checksum == format!("{checksum}@{major}"),
        None => entry.checksum.split('@').next() == Some(checksum.as_str()),
    };
    // A set of an earlier version may have the same text.
    Ok(if is_same { FunctionsState::Current } else { FunctionsState::Outdated })
}

/// Finds the applied migrations that the set does not know: the schema is newer.
pub(super) fn unknown<'a>(entries: &'a [Entry], set: &'a MigrationSet) -> impl Iterator<Item = &'a Entry> {
    entries.iter().filter(|entry| {
        entry.is_migration() && !set.migrations.iter().any(|migration| migration.name == entry.name)
    })
}

/// Says whether the schema fits this program: every `pre` migration and the functions are there, and nothing
/// that it does not know. A `post` migration may wait until the old programs are gone, and newer functions
/// serve older programs.
pub(crate) fn check(schema: &SchemaName, rows: Result<Vec<Row>, StoreError>) -> Result<(), StoreError> {
    let schema = schema.to_string();
    let rows = match rows {
        Err(StoreError::Schema(_)) => return Err(StoreError::Schema(SchemaProblem::Missing { schema })),
        rows => rows?,
    };
    let entries = rows.iter().map(Entry::read).collect::<Result<Vec<_>, _>>()?;
    fits(schema, &entries, MigrationSet::embedded())
}

fn fits(schema: String, entries: &[Entry], set: &MigrationSet) -> Result<(), StoreError> {
    if let Some(entry) = unknown(entries, set).next() {
        let detail = format!("it has {}", entry.name);
        return Err(StoreError::Schema(SchemaProblem::TooNew { schema, detail }));
    }
    if entries.is_empty() {
        return Err(StoreError::Schema(SchemaProblem::Missing { schema }));
    }
    let missing = set
        .migrations
        .iter()
        .filter(|migration| migration.phase == Phase::Pre)
        .find(|migration| !entries.iter().any(|entry| entry.name == migration.name));
    if let Some(missing) = missing {
        let detail = format!("{} is not applied", missing.name);
        return Err(StoreError::Schema(SchemaProblem::TooOld { schema, detail }));
    }
    match functions_state(entries, set, None)? {
        FunctionsState::Current | FunctionsState::Newer => Ok(()),
        FunctionsState::Missing | FunctionsState::Outdated => {
            let detail = "its functions are not this version's".to_owned();
            Err(StoreError::Schema(SchemaProblem::TooOld { schema, detail }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(version: &str, phase: &str, name: &str, checksum: &str) -> Entry {
        Entry {
            version: version.into(),
            phase: phase.into(),
            name: name.into(),
            checksum: checksum.into(),
            applied_at: Timestamp::UNIX_EPOCH,
        }
    }

    fn set() -> MigrationSet {
        let files = ["01.00.00_01_pre_a.sql", "01.00.00_02_post_b.sql"];
        let functions = [("f.sql".to_owned(), "SELECT 1".to_owned())];
        MigrationSet::new("1.2.0", files.map(|name| (name.to_owned(), String::new())), functions).unwrap()
    }

    fn problem(entries: &[Entry]) -> Option<SchemaProblem> {
        match fits("s".to_owned(), entries, &set()) {
            Ok(()) => None,
            Err(StoreError::Schema(problem)) => Some(problem),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn the_program_runs_on_what_it_knows() {
        let checksum = format!("{}@18", set().functions_checksum());
        let pre = entry("01.00.00", "pre", "01.00.00_01_pre_a.sql", "");
        let functions = entry("1.2.0", FUNCTIONS, "functions", &checksum);
        assert!(matches!(problem(&[]), Some(SchemaProblem::Missing { .. })));
        assert!(matches!(problem(&[pre.clone()]), Some(SchemaProblem::TooOld { .. })));
        assert!(matches!(problem(&[functions.clone()]), Some(SchemaProblem::TooOld { .. })));
        assert_eq!(problem(&[pre.clone(), functions.clone()]), None, "post may wait");
        let unknown = entry("01.01.00", "pre", "01.01.00_01_pre_c.sql", "");
        let newer = problem(&[pre.clone(), functions.clone(), unknown]);
        assert!(matches!(newer, Some(SchemaProblem::TooNew { .. })));
        let other = entry("1.2.0", FUNCTIONS, "functions", "x@18");
        assert!(matches!(problem(&[pre.clone(), other]), Some(SchemaProblem::TooOld { .. })));
        let newer = entry("1.10.0", FUNCTIONS, "functions", "x@18");
        assert_eq!(problem(&[pre, newer]), None, "newer functions serve older programs");
    }
}
