//! What a store call can fail with.

use std::error::Error;

/// What a store call can fail with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The worker's session is unknown, lost or expired (`TQ001`). It is never revived: start a new one.
    #[error("the worker's lease is lost: {message}")]
    LeaseLost {
        /// What the store said.
        message: String,
    },
    /// Something supplied is out of bounds (`TQ002`); nothing was written.
    #[error("{message}")]
    Invalid {
        /// Which element of a batch, from 0.
        index: Option<usize>,
        /// What is wrong with it.
        message: String,
    },
    /// Something supplied asks for what this version cannot do (`TQ003`); nothing was written.
    #[error("{message}")]
    Unsupported {
        /// Which element of a batch, from 0.
        index: Option<usize>,
        /// What was asked for.
        message: String,
    },
    /// The transaction's isolation level cannot carry this call (`TQ004`).
    #[error("{message}")]
    Isolation {
        /// What the store said.
        message: String,
    },
    /// Another worker leads (`TQ005`); nothing was changed.
    #[error("not the leader: {message}")]
    NotLeader {
        /// What the store said.
        message: String,
    },
    /// The schema in the database does not fit this program.
    #[error("{0}")]
    Schema(SchemaProblem),
    /// The database could not be reached, or went away during the call, which may have taken effect.
    #[error("the database is unavailable: {message}")]
    Unavailable {
        /// What was tried and how it failed.
        message: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// The caller's transaction was aborted by an error before this call; nothing was done (`25P02`).
    #[error("the transaction was aborted by an earlier error: roll it back and begin again")]
    Aborted,
    /// The store takes part in no transaction; nothing was done.
    #[error(
        "the in-memory store takes part in no transaction of a database: await the call without `.in_tx(…)`, or connect \
         to a database"
    )]
    NoTransaction,
    /// Another transaction holds a row or a key for longer than a call waits; nothing was changed (`55P03`).
    #[error("something is locked by another transaction: {message}")]
    Busy {
        /// What the store said.
        message: String,
    },
    /// The database gave the call up because it took longer than it may; nothing was changed (`57014`).
    #[error("the call took too long: {message}")]
    TimedOut {
        /// What the store said.
        message: String,
    },
    /// The database refused the connection: password, role, database or its settings.
    #[error("the database refuses the connection: {message}")]
    Refused {
        /// What it said.
        message: String,
    },
    /// A pooler is in between that the connection's mode, or what is asked for, cannot bear; nothing was done.
    #[error("{message}")]
    Pooler {
        /// What was found, and what to do.
        message: String,
    },
    /// The role of the connection lacks a privilege; nothing was changed (`42501`).
    #[error("permission denied: the role of this connection lacks {missing}; {remedy}")]
    Denied {
        /// The privilege and the object, as in `EXECUTE on function "taskq".claim`.
        missing: String,
        /// What gives it, and to whom that is open.
        remedy: String,
    },
    /// The database refused the call for a reason that has no type of its own.
    #[error("the database refused the call: {message} (SQLSTATE {sqlstate})")]
    Database {
        /// The five characters of its SQLSTATE.
        sqlstate: String,
        /// What it said.
        message: String,
    },
    /// The database answered something that this program cannot read: a bug.
    #[error("the database's answer cannot be read: {message}")]
    Answer {
        /// What was expected and met.
        message: String,
    },
}

impl StoreError {
    /// Says whether the same call may succeed later without anybody changing anything.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Busy { .. } | Self::TimedOut { .. })
    }

    /// Returns the SQLSTATE of an error that has no type of its own: `40001` and `40P01` among them, after which a
    /// transaction is to be rolled back and run again.
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Self::Database { sqlstate, .. } => Some(sqlstate),
            _ => None,
        }
    }

    /// A typed refusal without an element.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid { index: None, message: message.into() }
    }
}

/// How a schema fails to fit a program.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaProblem {
    /// There is no such schema, or it holds no ledger of migrations.
    #[error("the schema \"{schema}\" is missing: run `taskq migrate up`")]
    Missing {
        /// The schema.
        schema: String,
    },
    /// Migrations that this program needs are not applied.
    #[error("the schema \"{schema}\" is older than this program ({detail}): run `taskq migrate up`")]
    TooOld {
        /// The schema.
        schema: String,
        /// What is missing.
        detail: String,
    },
    /// The schema has migrations that this program does not know.
    #[error("the schema \"{schema}\" is newer than this program ({detail}): upgrade the program")]
    TooNew {
        /// The schema.
        schema: String,
        /// What is unknown.
        detail: String,
    },
}
