//! Which PostgreSQL the tests run on.

use std::str::FromStr;

use anyhow::{Context, anyhow, bail};
use taskq_testkit::{FETCHED_VERSION, Installation, PgSource, SUPPORTED_MAJORS};

use crate::report;

/// The major version of the server that can be fetched.
const FETCHED_MAJOR: u16 = 18;

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Major(u16),
    Source(PgSource),
}

impl Choice {
    /// What `TASKQ_PG` names.
    pub(crate) fn from_env() -> anyhow::Result<Self> {
        Ok(Self::Source(PgSource::from_env()?))
    }

    /// Finds or fetches the server.
    pub(crate) fn resolve(&self) -> anyhow::Result<Installation> {
        match self {
            Self::Source(source) => Ok(source.resolve_announced(announce)?),
            Self::Major(FETCHED_MAJOR) => match PgSource::Fetch.resolve_announced(announce) {
                Ok(fetched) => Ok(fetched),
                Err(reason) => installed(FETCHED_MAJOR).map_err(|missing| anyhow!("{reason}; {missing}")),
            },
            Self::Major(major) => installed(*major),
        }
    }
}

fn announce() {
    report(&format!("fetching PostgreSQL {FETCHED_VERSION}, 13 MB"));
}

fn installed(major: u16) -> anyhow::Result<Installation> {
    let all = Installation::all()?;
    all.into_iter().find(|installation| installation.version().major == major).with_context(|| {
        format!(
            "no PostgreSQL {major} on this machine; install it (Debian: apt-get install postgresql-{major}) \
             or give its directory to `cargo xtask test --pg`"
        )
    })
}

impl FromStr for Choice {
    type Err = anyhow::Error;

    fn from_str(value: &str) -> anyhow::Result<Self> {
        match value.parse() {
            Ok(major) if SUPPORTED_MAJORS.contains(&major) => Ok(Self::Major(major)),
            Ok(_) => bail!("taskq supports PostgreSQL 15 to 18"),
            Err(_) => Ok(Self::Source(value.parse()?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_major_version_and_anything_else_a_source() {
        let choice = |value: &str| value.parse::<Choice>();
        assert_eq!(choice("15").unwrap(), Choice::Major(15));
        assert_eq!(choice("fetch").unwrap(), Choice::Source(PgSource::Fetch));
        assert_eq!(choice("/opt/pg").unwrap(), Choice::Source(PgSource::Directory("/opt/pg".into())));
        assert!(choice("14").is_err());
        assert!(choice("").is_err());
    }
}
