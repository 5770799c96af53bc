//! Finding the PostgreSQL servers installed on the machine.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::account::Account;
use crate::fetch::{self, FetchError};

/// The major versions of PostgreSQL that taskq supports.
pub const SUPPORTED_MAJORS: RangeInclusive<u16> = 15..=18;

/// What a private server is made with.
const PROGRAMS: [&str; 3] = ["initdb", "pg_ctl", "postgres"];

/// The version of a PostgreSQL server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PgVersion {
    /// The major version, such as 18.
    pub major: u16,
    /// The minor version, such as 6; 0 before the first release.
    pub minor: u16,
}

impl PgVersion {
    /// Reads the answer of `postgres --version`: `postgres (PostgreSQL) 18.6 (…)`.
    fn parse(answer: &str) -> Option<Self> {
        let number = answer.split("(PostgreSQL) ").nth(1)?.split_whitespace().next()?;
        // Before its first release a version reads "18beta1" or "18devel".
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        let mut parts = number.split('.');
        let major = digits(parts.next()?).parse().ok()?;
        let minor = parts.next().and_then(|part| digits(part).parse().ok()).unwrap_or(0);
        Some(Self { major, minor })
    }
}

impl fmt::Display for PgVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// A PostgreSQL server's programs, known to run on this machine and to be of a supported version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    bin_dir: PathBuf,
    version: PgVersion,
}

/// No usable PostgreSQL server.
#[derive(Debug, thiserror::Error)]
pub enum InstallationError {
    /// The list of accounts could not be read.
    #[error("cannot read /etc/passwd, where the account for the server is looked up")]
    Accounts(#[source] io::Error),
    /// The caller is root, and there is no unprivileged account to run the server under.
    #[error("PostgreSQL refuses to run as root and there is no user postgres or nobody; run as another user")]
    NoAccount,
    /// What the caller named is no usable server.
    #[error(transparent)]
    Unusable(#[from] Unusable),
    /// The pinned server could not be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Nothing usable is installed and nothing could be fetched.
    #[error(
        "no PostgreSQL 15 to 18 on this machine{} and none fetched ({reason}); install PostgreSQL (Debian: \
         apt-get install postgresql) or set TASKQ_PG to its directory",
        list(.skipped)
    )]
    NothingFound {
        /// Servers that are installed and were passed over.
        skipped: Vec<Unusable>,
        /// Why the pinned server could not be fetched.
        reason: FetchError,
    },
}

/// Why the server in one directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", .directory.display())]
pub struct Unusable {
    directory: PathBuf,
    reason: String,
}

/// What a search of the machine found.
pub(crate) struct Search {
    /// Newest first.
    pub(crate) usable: Vec<Installation>,
    pub(crate) skipped: Vec<Unusable>,
}

impl Installation {
    /// Every supported server on this machine, an already fetched one included, newest first.
    ///
    /// # Errors
    ///
    /// The caller is root, and there is no account that a server could run under.
    pub fn all() -> Result<Vec<Self>, InstallationError> {
        let account = Account::for_this_process()
            .map_err(InstallationError::Accounts)?
            .ok_or(InstallationError::NoAccount)?;
        Ok(Self::search(&account).usable)
    }

    /// The directory that holds `postgres`, `initdb` and `pg_ctl`.
    pub fn bin_dir(&self) -> &Path {
        &self.bin_dir
    }

    /// The server's version.
    pub fn version(&self) -> PgVersion {
        self.version
    }

    /// Whether the server has the loadable library `name`, such as `pg_stat_statements`.
    pub fn has_library(&self, name: &str) -> bool {
        // Packages put libraries beside `bin`, in `lib` or in a directory of their own below it.
        ["../lib", "../lib/postgresql", "../lib64/pgsql", "../lib/pgsql"].iter().any(|place| {
            ["so", "dylib"].iter().any(|ext| self.bin_dir.join(place).join(format!("{name}.{ext}")).is_file())
        })
    }

    /// The server in `directory`, a directory of programs or an installation prefix.
    pub(crate) fn in_directory(directory: &Path, account: &Account) -> Result<Self, InstallationError> {
        let nested = directory.join("bin");
        let bin_dir = if nested.join("postgres").exists() { &nested } else { directory };
        Ok(Self::probe(bin_dir, account)?)
    }

    pub(crate) fn search(account: &Account) -> Search {
        let mut search = Search { usable: Vec::new(), skipped: Vec::new() };
        for bin_dir in candidates(account) {
            match Self::probe(&bin_dir, account) {
                Ok(installation) => search.usable.push(installation),
                Err(reason) => search.skipped.push(reason),
            }
        }
        search.usable.sort_by_key(|installation| std::cmp::Reverse(installation.version));
        search
    }

    /// Looks at one directory of programs, as the account that would run them.
    pub(crate) fn probe(bin_dir: &Path, account: &Account) -> Result<Self, Unusable> {
        let unusable = |reason: String| Unusable { directory: bin_dir.to_owned(), reason };
        // The keeper runs in another working directory.
        let bin_dir = fs::canonicalize(bin_dir).map_err(|error| unusable(error.to_string()))?;
        if let Some(missing) = PROGRAMS.iter().find(|program| !bin_dir.join(program).is_file()) {
            return Err(unusable(format!("has no {missing}")));
        }

        let mut command = Command::new(bin_dir.join("postgres"));
        account.apply(command.arg("--version"));
        let output = command.output().map_err(|error| match account {
            Account::Dropped { name, .. } if error.kind() == io::ErrorKind::PermissionDenied => {
                unusable(format!("the user {name}, to which root drops, cannot run it"))
            }
            _ => unusable(format!("postgres does not run: {error}")),
        })?;
        let answer = String::from_utf8_lossy(&output.stdout);
        let version = PgVersion::parse(&answer)
            .ok_or_else(|| unusable(format!("postgres --version says {:?}", answer.trim())))?;
        if SUPPORTED_MAJORS.contains(&version.major) {
            Ok(Self { bin_dir, version })
        } else {
            Err(unusable(format!("PostgreSQL {version} is not one of 15 to 18")))
        }
    }
}

/// Directories that hold a `postgres`, each once, its symbolic links followed.
fn candidates(account: &Account) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = env::split_paths(&path).collect();
    places.extend(below("/usr/lib/postgresql", "", "bin"));
    places.extend(below("/usr", "pgsql-", "bin"));
    places.extend(below("/usr/libexec", "postgresql", ""));
    for brew in ["/opt/homebrew/opt", "/usr/local/opt", "/home/linuxbrew/.linuxbrew/opt"] {
        places.extend(below(brew, "postgresql", "bin"));
    }
    places.extend(below("/Applications/Postgres.app/Contents/Versions", "", "bin"));
    places.extend(fetch::fetched(account));

    let mut found = Vec::new();
    for place in places {
        // A link in PATH leads to the directory where its sibling programs are.
        let Ok(program) = fs::canonicalize(place.join("postgres")) else { continue };
        if let Some(bin_dir) = program.parent().map(Path::to_owned)
            && !found.contains(&bin_dir)
        {
            found.push(bin_dir);
        }
    }
    found
}

/// `parent/<prefix…>/last` for every entry of `parent` whose name starts with `prefix`.
fn below(parent: &str, prefix: &str, last: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path().join(last))
        .collect()
}

fn list(skipped: &[Unusable]) -> String {
    if skipped.is_empty() {
        return String::new();
    }
    let reasons: Vec<String> = skipped.iter().map(Unusable::to_string).collect();
    format!(" (passed over: {})", reasons.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_postgres_says_of_itself() {
        let version = |answer| PgVersion::parse(answer).map(|version| (version.major, version.minor));
        assert_eq!(version("postgres (PostgreSQL) 18.6\n"), Some((18, 6)));
        assert_eq!(version("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n"), Some((15, 14)));
        assert_eq!(version("postgres (PostgreSQL) 18beta1\n"), Some((18, 0)));
        assert_eq!(version("postgres (PostgreSQL) devel\n"), None);
        assert_eq!(version("something else 15.1"), None);
    }
}
