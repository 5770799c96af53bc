//! The one place where PostgreSQL's errors get their types.

use std::error::Error as _;
use std::io;

use taskq_core::store::{SchemaProblem, StoreError};
use tokio_postgres::error::DbError;

use crate::rights;
use crate::schema::SchemaName;

/// What a failed call means for its connection and for a second attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The connection is of no more use.
    Broken,
    /// A prepared statement is not what it was; an unnamed one will do.
    Stale,
    /// The answer stands.
    Final,
}

/// Says what a failed call means.
pub(crate) fn judge(error: &tokio_postgres::Error) -> Verdict {
    let Some(db) = error.as_db_error() else {
        return if is_lost(error) { Verdict::Broken } else { Verdict::Final };
    };
    match db.code().code() {
        "0A000" if db.routine() == Some("RevalidateCachedQuery") => Verdict::Stale,
        // A server that went read-only is a former primary: connect anew.
        "25006" | "25P03" | "57P01" | "57P02" | "57P03" | "57P05" => Verdict::Broken,
        code if code.starts_with("08") => Verdict::Broken,
        _ => Verdict::Final,
    }
}

/// Says whether a SQLSTATE tells that a session lost our statements, or has statements that are not ours.
pub(crate) fn is_foreign(sqlstate: &str) -> bool {
    matches!(sqlstate, "26000" | "42P05")
}

/// Types the failure of a call.
pub(crate) fn of_call(error: tokio_postgres::Error, schema: &SchemaName) -> StoreError {
    match error.as_db_error() {
        Some(db) => of_server(db, schema),
        None if is_lost(&error) => unavailable("the connection was lost during a call", error),
        None => StoreError::Answer { message: chain(&error) },
    }
}

/// Types the failure to connect.
pub(crate) fn of_connect(error: tokio_postgres::Error, servers: &str) -> StoreError {
    if let Some(db) = error.as_db_error() {
        let message = db.message().to_owned();
        return match db.code().code() {
            code if is_passing(code) => {
                StoreError::Unavailable { message: format!("{servers}: {message}"), source: None }
            }
            _ => StoreError::Refused { message },
        };
    }
    if is_lost(&error) || error.source().is_some_and(<dyn std::error::Error>::is::<io::Error>) {
        return StoreError::Unavailable {
            message: format!("{servers} cannot be reached: {}", cause(&error)),
            source: Some(error.into()),
        };
    }
    StoreError::Refused { message: chain(&error) }
}

/// Types the failure of a call in a transaction of the caller's own.
pub(crate) fn in_transaction(error: tokio_postgres::Error, schema: &SchemaName) -> StoreError {
    match error.as_db_error() {
        Some(db) => of_transaction(db.code().code(), db.message(), db.detail(), schema),
        None => of_call(error, schema),
    }
}

/// Types what a server said of a call in a transaction of the caller's own, whatever driver it came by.
pub(crate) fn of_transaction(
    code: &str,
    message: &str,
    detail: Option<&str>,
    schema: &SchemaName,
) -> StoreError {
    match code {
        "25P02" => StoreError::Aborted,
        // It is the transaction that only reads, not the server.
        "25006" => StoreError::Database { sqlstate: code.to_owned(), message: message.to_owned() },
        _ => of_sqlstate(code, message, detail, schema),
    }
}

fn of_server(db: &DbError, schema: &SchemaName) -> StoreError {
    of_sqlstate(db.code().code(), db.message(), db.detail(), schema)
}

fn of_sqlstate(code: &str, message: &str, detail: Option<&str>, schema: &SchemaName) -> StoreError {
    let message = message.to_owned();
    let index = || detail.and_then(|detail| detail.parse().ok());
    match code {
        // What `pgbouncer` says to a transaction when it hands its sessions out for a statement.
        "08P01" if message.contains("statement pooling") => StoreError::Pooler {
            message: format!(
                "the pooler allows no transactions ({message}): put it into transaction or session mode"
            ),
        },
        "TQ001" => StoreError::LeaseLost { message },
        "TQ002" => StoreError::Invalid { index: index(), message },
        "TQ003" => StoreError::Unsupported { index: index(), message },
        "TQ004" => StoreError::Isolation { message },
        "TQ005" => StoreError::NotLeader { message },
        "55P03" => StoreError::Busy { message },
        "57014" => StoreError::TimedOut { message },
        "3F000" => StoreError::Schema(SchemaProblem::Missing { schema: schema.to_string() }),
        "42P01" | "42883" | "42703" if message.contains(schema.as_str()) => {
            StoreError::Schema(SchemaProblem::TooOld { schema: schema.to_string(), detail: message })
        }
        "42501" => rights::denied(&message, schema),
        "25006" => StoreError::Unavailable {
            message: format!("the server only reads, as a standby does: {message}"),
            source: None,
        },
        code if is_passing(code) => StoreError::Unavailable { message, source: None },
        code if code.starts_with("28") || code == "3D000" => StoreError::Refused { message },
        code => StoreError::Database { sqlstate: code.to_owned(), message },
    }
}

/// Says whether a SQLSTATE passes by itself: lost connections, shutdowns, exhausted resources, timeouts.
fn is_passing(code: &str) -> bool {
    matches!(code, "25P03" | "57014" | "57P01" | "57P02" | "57P03" | "57P05")
        || code.starts_with("08")
        || code.starts_with("53")
        || code.starts_with("58")
}

/// Says whether the transport failed.
fn is_lost(error: &tokio_postgres::Error) -> bool {
    error.is_closed()
        || error.source().and_then(|cause| cause.downcast_ref::<io::Error>()).is_some_and(|cause| {
            // A value that does not encode is an `io::Error` as well, but none of the transport.
            cause.kind() != io::ErrorKind::InvalidInput && cause.kind() != io::ErrorKind::InvalidData
        })
}

fn unavailable(what: &str, error: tokio_postgres::Error) -> StoreError {
    StoreError::Unavailable { message: format!("{what}: {}", cause(&error)), source: Some(error.into()) }
}

/// The innermost cause, in one line.
fn cause(error: &tokio_postgres::Error) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(next) = last.source() {
        last = next;
    }
    last.to_string()
}

/// The error with its causes, in one line.
pub(crate) fn chain(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut last: &dyn std::error::Error = error;
    while let Some(next) = last.source() {
        text.push_str(": ");
        text.push_str(&next.to_string());
        last = next;
    }
    text
}

/// A failure to connect that several callers share.
pub(crate) fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Refused { message } => StoreError::Refused { message: message.clone() },
        StoreError::Pooler { message } => StoreError::Pooler { message: message.clone() },
        StoreError::Unavailable { message, .. } => {
            StoreError::Unavailable { message: message.clone(), source: None }
        }
        other => StoreError::Unavailable { message: other.to_string(), source: None },
    }
}
