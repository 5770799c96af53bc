//! The account a private server runs under, and where its files may live.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// Accounts that root drops to, the first that exists.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];

/// The account that owns a server's files and its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// The caller's own: it is not root.
    Caller,
    /// An unprivileged one, because the caller is root and PostgreSQL refuses root.
    Dropped { name: String, uid: u32, gid: u32 },
}

impl Account {
    /// The account for servers of this process; `None` if it is root and the machine has no account to drop to.
    pub(crate) fn for_this_process() -> io::Result<Option<Self>> {
        if rustix::process::geteuid().is_root() {
            Ok(Self::from_passwd(&fs::read_to_string("/etc/passwd")?))
        } else {
            Ok(Some(Self::Caller))
        }
    }

    fn from_passwd(passwd: &str) -> Option<Self> {
        UNPRIVILEGED.iter().find_map(|wanted| {
            passwd.lines().find_map(|line| {
                let mut fields = line.split(':');
                let name = fields.next().filter(|name| name == wanted)?;
                let uid = fields.nth(1)?.parse().ok().filter(|uid| *uid != 0)?;
                let gid = fields.next()?.parse().ok()?;
                Some(Self::Dropped { name: name.to_owned(), uid, gid })
            })
        })
    }

    /// Makes `command` run under this account.
    ///
    /// The working directory becomes `/`, because the account may not be able to enter the caller's. The standard
    /// library also clears root's supplementary groups when it changes the user.
    pub(crate) fn apply(&self, command: &mut Command) {
        command.current_dir("/");
        if let Self::Dropped { uid, gid, .. } = self {
            command.uid(*uid).gid(*gid);
        }
    }

    /// Hands `path` over to this account.
    pub(crate) fn give(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Caller => Ok(()),
            Self::Dropped { uid, gid, .. } => chown(path, Some(*uid), Some(*gid)),
        }
    }

    /// The directory in which servers make theirs. Root's temporary directory may be closed to the account.
    pub(crate) fn server_root(&self) -> PathBuf {
        match self {
            Self::Caller => env::temp_dir(),
            Self::Dropped { .. } => PathBuf::from("/var/tmp"),
        }
    }

    /// The directory for what is fetched once; `None` if the caller has no home. Root's home is closed to the account.
    pub(crate) fn cache_root(&self) -> Option<PathBuf> {
        match self {
            Self::Dropped { .. } => Some(PathBuf::from("/var/cache/taskq")),
            Self::Caller => env::var_os("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
                .or_else(|| env::home_dir().map(|home| home.join(".cache")))
                .map(|cache| cache.join("taskq")),
        }
    }

    /// A shell command line that runs `command` under this account.
    pub(crate) fn shell_line(&self, command: &str) -> String {
        match self {
            Self::Caller => command.to_owned(),
            Self::Dropped { name, .. } => format!("su -s /bin/sh {name} -c \"{command}\""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_drops_to_postgres_before_nobody() {
        let passwd =
            "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65533::/:/bin/false\npostgres:x:101:104::/:/bin/sh\n";
        let postgres = Account::Dropped { name: "postgres".into(), uid: 101, gid: 104 };
        assert_eq!(Account::from_passwd(passwd), Some(postgres));

        let without =
            passwd.lines().filter(|line| !line.starts_with("postgres")).collect::<Vec<_>>().join("\n");
        let nobody = Account::Dropped { name: "nobody".into(), uid: 65534, gid: 65533 };
        assert_eq!(Account::from_passwd(&without), Some(nobody));
    }

    #[test]
    fn an_account_that_is_root_by_another_name_is_passed_over() {
        assert_eq!(Account::from_passwd("postgres:x:0:0::/:/bin/sh\nbroken line\n"), None);
    }
}
