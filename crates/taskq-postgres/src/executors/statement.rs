//! One statement for whoever runs it.

use std::fmt;

use crate::schema::SchemaName;

/// Reads the text of an answer.
type Read<T, E> = Box<dyn FnOnce(&str) -> Result<T, E> + Send>;

/// A call as one SQL statement with one parameter, for drivers that taskq does not know.
///
/// Run [`sql`](Self::sql) with [`json`](Self::json) as the parameter `$1`, a `text`, and hand the text of the only
/// column of the only row to [`answered`](Self::answered).
#[must_use = "a statement does nothing until it is run"]
pub struct Statement<T, E> {
    pub(super) schema: SchemaName,
    sql: String,
    json: String,
    read: Read<T, E>,
}

impl<T, E> Statement<T, E> {
    pub(super) fn new(
        schema: SchemaName,
        sql: &str,
        json: String,
        read: impl FnOnce(&str) -> Result<T, E> + Send + 'static,
    ) -> Self {
        let sql = schema.render(sql);
        Self { schema, sql, json, read: Box::new(read) }
    }

    /// Returns the text of the statement. It is the same for every call of its kind, so it can be prepared.
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Returns the value of `$1`.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// What the call itself fails with, and [`StoreError::Answer`](taskq_core::store::StoreError::Answer) for a text that is no answer.
    pub fn answered(self, answer: &str) -> Result<T, E> {
        (self.read)(answer)
    }
}

impl<T, E> fmt::Debug for Statement<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statement").field("sql", &self.sql).field("json", &self.json).finish_non_exhaustive()
    }
}
