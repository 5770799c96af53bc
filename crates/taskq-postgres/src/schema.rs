//! The schema that holds everything, and the names that are derived from it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// The schema of a store that names none.
const DEFAULT: &str = "taskq";
/// The longest schema name, in bytes: PostgreSQL's 63 less what channel names add.
const LIMIT: usize = 48;

/// Names the schema that holds a store's tables and functions.
///
/// 1 to 48 bytes without control characters and without `" ' \ { } $ % :`, so that it can stand in
/// identifiers, string literals and function bodies. Names that PostgreSQL keeps for itself are refused.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SchemaName(Arc<str>);

/// Why a text is not a schema name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSchemaName {
    /// The text is empty.
    #[error("the schema name is empty")]
    Empty,
    /// The text is longer than 48 bytes.
    #[error("the schema name has {bytes} bytes, more than {LIMIT}")]
    TooLong {
        /// The length of the text.
        bytes: usize,
    },
    /// The text contains a character that may not stand in a schema name.
    #[error("the schema name contains {0:?}")]
    Character(char),
    /// PostgreSQL keeps this name for itself.
    #[error("the schema name {0:?} is reserved by PostgreSQL")]
    Reserved(String),
}

impl SchemaName {
    /// Checks and wraps a text.
    ///
    /// # Errors
    /// [`InvalidSchemaName`] says what is wrong with it.
    pub fn new(text: &str) -> Result<Self, InvalidSchemaName> {
        if text.is_empty() {
            return Err(InvalidSchemaName::Empty);
        }
        if text.len() > LIMIT {
            return Err(InvalidSchemaName::TooLong { bytes: text.len() });
        }
        if let Some(bad) = text.chars().find(|c| c.is_control() || "\"'\\{}$%:".contains(*c)) {
            return Err(InvalidSchemaName::Character(bad));
        }
        if text.starts_with("pg_") || text == "information_schema" {
            return Err(InvalidSchemaName::Reserved(text.to_owned()));
        }
        Ok(Self(text.into()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Replaces `{schema}` in a SQL text. The files write the quotes themselves: `"{schema}".jobs`.
    pub(crate) fn render(&self, sql: &str) -> String {
        sql.replace("{schema}", &self.0)
    }

    /// The channel that tells of ready jobs; its payload is the queue.
    pub(crate) fn ready_channel(&self) -> String {
        format!("{}:ready", self.0)
    }

    /// The channel that tells of jobs that will be due soon.
    pub(crate) fn due_channel(&self) -> String {
        format!("{}:due", self.0)
    }

    /// The channel that tells of cancellations; its payload is the worker.
    pub(crate) fn cancel_channel(&self) -> String {
        format!("{}:cancel", self.0)
    }

    /// The advisory lock of one purpose in this schema.
    pub(crate) fn lock_key(&self, purpose: &str) -> i64 {
        let digest = Sha256::digest(format!("taskq:{purpose}:{}", self.0));
        digest.iter().take(8).fold(0_i64, |key, byte| (key << 8) | i64::from(*byte))
    }
}

impl Default for SchemaName {
    fn default() -> Self {
        Self(DEFAULT.into())
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for SchemaName {
    type Err = InvalidSchemaName;

    fn from_str(text: &str) -> Result<Self, InvalidSchemaName> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_their_quotes_are_refused() {
        for text in ["a\"b", "a'b", "a\\b", "{schema}", "a$$b", "a%b", "a:b", "a\0b", "a\nb"] {
            assert!(matches!(SchemaName::new(text), Err(InvalidSchemaName::Character(_))), "{text:?}");
        }
        assert_eq!(SchemaName::new(""), Err(InvalidSchemaName::Empty));
        assert_eq!(SchemaName::new(&"s".repeat(49)), Err(InvalidSchemaName::TooLong { bytes: 49 }));
        assert!(matches!(SchemaName::new("pg_jobs"), Err(InvalidSchemaName::Reserved(_))));
        assert!(SchemaName::new("Ünusual name-1").is_ok());
    }

    #[test]
    fn channels_fit_and_locks_differ() {
        let longest = SchemaName::new(&"s".repeat(LIMIT)).unwrap();
        for channel in [longest.ready_channel(), longest.due_channel(), longest.cancel_channel()] {
            assert!(channel.len() < 63, "{channel}");
        }
        let other = SchemaName::default();
        assert_ne!(longest.lock_key("migrate"), other.lock_key("migrate"));
        assert_ne!(other.lock_key("migrate"), other.lock_key("other"));
    }
}
