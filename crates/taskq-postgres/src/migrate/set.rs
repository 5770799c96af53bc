//! What can be applied: migrations by name, and one set of functions.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::embedded;
use super::error::MigrateError;
use super::text::{checksum, hex, index_built, is_concurrent, normalise, statements};

/// The first line that makes a migration run outside a transaction.
const NO_TRANSACTION: &str = "-- taskq: no-transaction";

/// When a migration may run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Before the new program runs; the old one goes on beside it.
    Pre,
    /// After the old program is gone.
    Post,
}

impl Phase {
    /// Returns the word used in file names and in the ledger.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pre => "pre",
            Self::Post => "post",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The migrations and functions that a schema is brought to.
#[derive(Clone, Debug)]
pub struct MigrationSet {
    pub(super) version: String,
    pub(super) migrations: Vec<Migration>,
    pub(super) functions: Vec<Function>,
}

#[derive(Clone, Debug)]
pub(super) struct Migration {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) phase: Phase,
    pub(super) sql: Cow<'static, str>,
    pub(super) checksum: String,
}

#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) sql: Cow<'static, str>,
}

impl MigrationSet {
    /// Returns what this program carries.
    pub fn embedded() -> &'static Self {
        static EMBEDDED: LazyLock<MigrationSet> = LazyLock::new(|| {
            let owned =
                |(name, sql): &(&'static str, &'static str)| ((*name).to_owned(), Cow::Borrowed(*sql));
            MigrationSet::build(
                env!("CARGO_PKG_VERSION"),
                embedded::MIGRATIONS.iter().map(owned),
                embedded::FUNCTIONS.iter().map(owned),
            )
            .expect("a test builds the embedded set")
        });
        &EMBEDDED
    }

    /// Makes a set of other files, as tests of upgrades need it.
    ///
    /// `version` is the function set's, three numbers with points between them. Migrations are named like
    /// `01.00.00_01_pre_initial.sql`, functions like `claim.sql`.
    ///
    /// # Errors
    /// [`MigrateError::Set`] for a name out of form or used twice.
    pub fn new(
        version: &str,
        migrations: impl IntoIterator<Item = (String, String)>,
        functions: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, MigrateError> {
        let cow = |(name, sql): (String, String)| (name, Cow::Owned(sql));
        Self::build(version, migrations.into_iter().map(cow), functions.into_iter().map(cow))
    }

    fn build(
        version: &str,
        migrations: impl Iterator<Item = (String, Cow<'static, str>)>,
        functions: impl Iterator<Item = (String, Cow<'static, str>)>,
    ) -> Result<Self, MigrateError> {
        numbers(version).ok_or_else(|| MigrateError::Set(format!("{version:?} is not a version")))?;
        let mut numbered = Vec::new();
        for (name, sql) in migrations {
            let bad = || MigrateError::Set(format!("{name:?} is not named like 01.00.00_01_pre_initial.sql"));
            let (version, number, phase) = parse_name(&name).ok_or_else(bad)?;
            let migration = Migration {
                version: version.to_owned(),
                phase,
                checksum: checksum(&sql),
                sql,
                name: name.clone(),
            };
            check_indexes(&migration)?;
            numbered.push((number, migration));
        }
        // In a version, what is safe before the new program comes before what is not.
        numbered.sort_by(|(a, x), (b, y)| (&x.version, x.phase, a).cmp(&(&y.version, y.phase, b)));
        let mut seen = std::collections::HashMap::new();
        for (number, migration) in &numbered {
            if let Some(other) = seen.insert((&migration.version, number), &migration.name) {
                let message = format!("{other} and {} have the same number", migration.name);
                return Err(MigrateError::Set(message));
            }
        }
        let migrations = numbered.into_iter().map(|(_, migration)| migration).collect();
        let mut functions = functions
            .map(|(file, sql)| match file.strip_suffix(".sql") {
                Some(name) if is_word(name) => Ok(Function { name: name.to_owned(), sql }),
                _ => Err(MigrateError::Set(format!("{file:?} is not named like a function"))),
            })
            .collect::<Result<Vec<_>, _>>()?;
        functions.sort_by(|left, right| left.name.cmp(&right.name));
        if let Some(pair) = functions.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(MigrateError::Set(format!("two functions are named {}", pair[0].name)));
        }
        Ok(Self { version: version.to_owned(), migrations, functions })
    }

    /// The hash of the functions' normalised texts.
    pub(super) fn functions_checksum(&self) -> String {
        let mut digest = Sha256::new();
        for function in &self.functions {
            digest.update(normalise(&function.sql));
            digest.update([0]);
        }
        hex(&digest.finalize())
    }
}

impl Migration {
    /// Says whether the file asks to run outside a transaction, as building an index concurrently must.
    pub(super) fn is_transactional(&self) -> bool {
        self.sql.lines().next().is_none_or(|line| line.trim_end() != NO_TRANSACTION)
    }
}

/// Refuses a build beside the traffic where it cannot run, or cannot be run again.
fn check_indexes(migration: &Migration) -> Result<(), MigrateError> {
    for statement in statements(&migration.sql).iter().filter(|statement| is_concurrent(statement)) {
        let name = &migration.name;
        if migration.is_transactional() {
            let asks =
                format!("{name} works on an index CONCURRENTLY: its first line must be `{NO_TRANSACTION}`");
            return Err(MigrateError::Set(asks));
        }
        let builds = statement.get(..6).is_some_and(|word| word.eq_ignore_ascii_case("CREATE"));
        if builds && index_built(statement).is_none() {
            let asks = format!(
                "{name} builds an index CONCURRENTLY: say IF NOT EXISTS, so that it can be run again"
            );
            return Err(MigrateError::Set(asks));
        }
    }
    Ok(())
}

/// Reads `01.00.00_01_pre_initial.sql`.
fn parse_name(name: &str) -> Option<(&str, u32, Phase)> {
    let stem = name.strip_suffix(".sql")?;
    let mut parts = stem.splitn(4, '_');
    let (version, number, phase, words) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let two_digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = version.split('.').count() == 3 && version.split('.').all(two_digits);
    let phase = match phase {
        "pre" => Phase::Pre,
        "post" => Phase::Post,
        _ => return None,
    };
    (is_version && two_digits(number) && is_word(words)).then_some((version, number.parse().ok()?, phase))
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

/// Reads a version as its three numbers.
pub(super) fn numbers(version: &str) -> Option<[u32; 3]> {
    let parts: Vec<_> = version.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    parts.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> Result<Vec<String>, MigrateError> {
        let files = names.iter().map(|name| ((*name).to_owned(), String::new()));
        let set = MigrationSet::new("1.0.0", files, [])?;
        Ok(set.migrations.into_iter().map(|migration| migration.name).collect())
    }

    #[test]
    fn the_embedded_set_is_well_formed() {
        assert!(!MigrationSet::embedded().migrations.is_empty());
    }

    #[test]
    fn names_have_a_grammar() {
        for bad in [
            "1.00.00_01_pre_a.sql",
            "01.00_01_pre_a.sql",
            "01.00.00_1_pre_a.sql",
            "01.00.00_01_mid_a.sql",
            "01.00.00_01_pre_.sql",
            "01.00.00_01_pre_A.sql",
            "01.00.00_01_pre_a",
            "01.00.00_01_pre_a'b.sql",
        ] {
            assert!(matches!(set(&[bad]), Err(MigrateError::Set(_))), "{bad}");
        }
    }

    #[test]
    fn a_number_is_used_once_a_version_and_pre_comes_first() {
        let twice = set(&["01.00.00_01_pre_a.sql", "01.00.00_01_post_b.sql"]);
        assert!(matches!(twice, Err(MigrateError::Set(_))), "{twice:?}");
        let names = ["01.01.00_01_pre_d.sql", "01.00.00_02_post_c.sql", "01.00.00_03_pre_b.sql"];
        assert_eq!(set(&names).unwrap(), [names[2], names[1], names[0]]);
    }

    #[test]
    fn an_index_is_built_beside_the_traffic_where_that_can_be_repeated() {
        let build = |sql: &str| {
            MigrationSet::new("1.0.0", [("01.00.00_01_pre_a.sql".to_owned(), sql.to_owned())], []).map(drop)
        };
        for (sql, asks) in [
            ("CREATE INDEX CONCURRENTLY IF NOT EXISTS a ON t (b);", "first line"),
            ("-- taskq: no-transaction\nCREATE INDEX CONCURRENTLY a ON t (b);", "IF NOT EXISTS"),
        ] {
            let error = build(sql).unwrap_err();
            assert!(matches!(&error, MigrateError::Set(message) if message.contains(asks)), "{error}");
        }
        build("-- taskq: no-transaction\nDROP INDEX CONCURRENTLY IF EXISTS a;").unwrap();
        build("CREATE INDEX a ON t (b); -- not CONCURRENTLY").unwrap();
    }

    #[test]
    fn the_header_makes_a_file_run_outside_a_transaction() {
        let file = |sql: &str| ("01.00.00_01_pre_a.sql".to_owned(), sql.to_owned());
        let transactional = |sql| {
            let set = MigrationSet::new("1.0.0", [file(sql)], []).unwrap();
            set.migrations[0].is_transactional()
        };
        assert!(!transactional("-- taskq: no-transaction\nSELECT 1;"));
        assert!(transactional("SELECT 1;\n-- taskq: no-transaction"));
    }
}
