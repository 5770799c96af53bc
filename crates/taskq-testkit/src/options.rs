//! How a private server is set up.

use std::fmt::Write;

use crate::installation::Installation;
use crate::source::PgSource;

/// How a private server is set up. [`durable`](Self::durable) and [`fast`](Self::fast) say what a crash may cost.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) source: PgSource,
    pub(crate) initdb: &'static str,
    settings: Vec<(String, String)>,
    preload: Vec<String>,
    pub(crate) files: Vec<(&'static str, String)>,
}

impl Options {
    /// A server that keeps PostgreSQL's own guarantees: what is committed survives a crash of the machine.
    pub fn durable(source: PgSource) -> Self {
        Self { source, initdb: "", settings: Vec::new(), preload: Vec::new(), files: Vec::new() }
    }

    /// A server for tests: nothing waits for a disk.
    ///
    /// What is committed still survives a crash of the server, only not one of the machine. `synchronous_commit` stays
    /// on, because turning it off would lose commits with the server too.
    pub fn fast(source: PgSource) -> Self {
        Self { initdb: "--no-sync", ..Self::durable(source) }
            .setting("fsync", "off")
            .setting("full_page_writes", "off")
    }

    /// What the tests of this workspace share: [`fast`](Self::fast), with `pg_stat_statements` where the server has it.
    pub fn for_tests(source: PgSource) -> Self {
        Self::fast(source).preload("pg_stat_statements")
    }

    /// Sets a configuration parameter for the whole server; the last value counts.
    ///
    /// The port, the address and the Unix socket are not open to change. The server says in its log what it refuses.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Puts a file beside the server's data, where settings name it as `../NAME`. Nobody but the server can read it.
    #[must_use]
    pub fn file(mut self, name: &'static str, content: impl Into<String>) -> Self {
        self.files.push((name, content.into()));
        self
    }

    /// Loads a library at start, such as `pg_stat_statements`, if the server has it.
    #[must_use]
    pub fn preload(mut self, library: impl Into<String>) -> Self {
        self.preload.push(library.into());
        self
    }

    /// The content of the configuration file.
    pub(crate) fn configuration(&self, installation: &Installation) -> String {
        let preload: Vec<&str> = self
            .preload
            .iter()
            .map(String::as_str)
            .filter(|library| installation.has_library(library))
            .collect();
        let given = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        [("max_connections", "200"), ("timezone", "UTC"), ("log_timezone", "UTC")]
            .into_iter()
            .chain([("shared_preload_libraries", preload.join(",").as_str())])
            .chain(given)
            .chain([("listen_addresses", "127.0.0.1"), ("unix_socket_directories", "")])
            .fold(String::new(), |mut file, (name, value)| {
                writeln!(file, "{name} = '{}'", quote(value)).expect("writing to a string cannot fail");
                file
            })
    }
}

/// A value between single quotes in a PostgreSQL configuration file, where backslashes escape and a line ends it all.
fn quote(value: &str) -> String {
    value.replace('\\', "\\\\").replace('\'', "''").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_leave_its_quotes() {
        assert_eq!(quote("a'b\\c\nd"), r"a''b\\c\nd");
    }
}
