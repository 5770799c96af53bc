//! What a migration can fail with.

use std::time::Duration;

use taskq_core::store::{SchemaProblem, StoreError};

/// What a migration can fail with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// The DSN is wrong, the database unavailable, or its answer cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The schema is newer than this program; nothing was changed.
    #[error("{0}")]
    Newer(SchemaProblem),
    /// A file changed after it had been applied; nothing was changed.
    #[error(
        "{name} was changed after it had been applied: restore it, and put what is new into a file of its own"
    )]
    Drift {
        /// The file.
        name: String,
    },
    /// A `post` file may run only after every `pre` file of its version and the functions.
    #[error("{post} may not run before {pre}: run the pre phase first")]
    PostBeforePre {
        /// The file that was asked for.
        post: String,
        /// What is missing.
        pre: String,
    },
    /// Someone else migrates this schema.
    #[error("another migration of this schema still runs after {0:?}: try again when it is done")]
    Busy(Duration),
    /// A table stayed locked by others.
    #[error("{name} did not get its locks in {waited:?}: another session holds a table of the schema")]
    Locked {
        /// The file.
        name: String,
        /// How long it was tried.
        waited: Duration,
    },
    /// The connection goes through a pooler that changes sessions between statements.
    #[error(
        "the server session changed between two statements, as behind a pooler in transaction mode: connect \
         to the server itself to migrate"
    )]
    Pooler,
    /// The database refused a statement; what belongs to the same file was rolled back.
    #[error("{name}: {message} (SQLSTATE {sqlstate}{})", .line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Statement {
        /// The file.
        name: String,
        /// The five characters of its SQLSTATE.
        sqlstate: String,
        /// What the database said.
        message: String,
        /// Where in the file, from 1.
        line: Option<usize>,
    },
    /// The set of files is out of form.
    #[error("the migrations cannot be used: {0}")]
    Set(String),
}
