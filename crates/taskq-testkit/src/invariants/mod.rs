//! What must hold after any number of faults: nothing lost, nothing twice, every attempt accounted for.
//!
//! Handlers under test note in an [`ExecutionLog`] what they really do, on a clock that all processes of a machine
//! share; the harness notes there which processes it killed or froze. [`check`] compares that with the database.
//!
//! ```no_run
//! # async fn example(client: &tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use taskq_testkit::invariants::{ExecutionLog, check};
//!
//! let log = ExecutionLog::open("/tmp/soak".as_ref())?;
//! # let (job, enqueued) = (uuid::Uuid::nil(), []);
//! // In a handler: the attempt ends when its future is dropped, however that comes about.
//! let running = log.begin(job, 1, 1)?;
//! drop(running);
//! // When every job has ended:
//! let violations = check(client, "/tmp/soak".as_ref(), &enqueued).await?;
//! assert!(violations.is_empty(), "{violations:#?}");
//! # Ok(())
//! # }
//! ```

mod facts;
mod log;
mod rules;

use std::io;
use std::path::Path;

use tokio_postgres::Client;
use uuid::Uuid;

pub use facts::{JobFacts, PastAttempt, read_jobs};
pub use log::{AttemptKey, Event, ExecutionLog, Record, RunningAttempt, read_log};
pub use rules::violations;

/// The facts to check could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The execution log cannot be read, or a line of it is not what a log has.
    #[error("cannot read the execution log")]
    Log(#[from] io::Error),
    /// The database did not answer.
    #[error("cannot read the jobs")]
    Database(#[from] tokio_postgres::Error),
}

/// Checks every invariant, once all jobs have ended: a sentence with the job's id for each violation.
///
/// `client` is a session in the database with the schema `taskq`, `log` the directory of the [`ExecutionLog`],
/// `enqueued` the jobs whose enqueue was confirmed. Every handler must have kept the log. See [`violations`] for the
/// rules.
///
/// # Errors
///
/// The log or the database cannot be read.
pub async fn check(client: &Client, log: &Path, enqueued: &[Uuid]) -> Result<Vec<String>, CheckError> {
    // The database first: what the log has more, because something still runs, is a violation and not overlooked.
    let jobs = read_jobs(client).await?;
    Ok(violations(enqueued, &read_log(log)?, &jobs))
}
