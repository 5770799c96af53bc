//! A handler that records its success in its own transaction.

use std::future::Future;

use serde::{Deserialize, Serialize};
use taskq_core::model::{Epoch, JobId, Json, JsonError, RESULT_LIMIT, SettleReason, Status, WorkerId};
use taskq_core::store::StoreError;
use taskq_core::worker::Context;

use super::calls::schema_of;
use super::{Executor, Statement};

/// Records the success of an attempt in a transaction of the handler's own, so that it is committed together with what
/// the handler did there, or not at all.
///
/// ```no_run
/// # use taskq_core::worker::{Context, JobResult};
/// # use taskq_postgres::prelude::*;
/// # async fn connect() -> Result<tokio_postgres::Client, tokio_postgres::Error> { todo!() }
/// async fn book(amount: i64, ctx: Context) -> JobResult<i64> {
///     let mut connection = connect().await?;
///     let mut tx = connection.transaction().await?;
///     let row = tx.query_one("UPDATE accounts SET total = total + $1 RETURNING total", &[&amount]).await?;
///     let total = row.get(0);
///     ctx.complete_in(&mut tx, &total).await?;
///     tx.commit().await?;
///     Ok(total)
/// }
/// ```
///
/// The worker settles afterwards as ever, and finds what the transaction wrote; after a rollback it finds a job that
/// still runs. The handler should return what it recorded: the first result stands. One that fails after its commit
/// changes nothing any more, and the worker's log says that its outcome came too late.
///
/// The job's row is locked until the transaction ends. Should the worker's lease end meanwhile, the job is not taken
/// from it: the commit stands, and after a rollback the job runs elsewhere. So keep what comes after it short.
pub trait CompleteIn: sealed::Sealed {
    /// Records the success in the transaction, by one statement in one round trip.
    ///
    /// # Errors
    /// [`CompleteError::Stale`] when the attempt has lost its job: roll back. Above READ COMMITTED it may be
    /// [`StoreError::Database`] with `40001` when the job's row has changed since the transaction began, and a
    /// transaction that is older than the worker's lease (30 s by default) is told that it is stale.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the statement runs: roll back then.
    fn complete_in<X, T>(
        &self,
        tx: &mut X,
        output: &T,
    ) -> impl Future<Output = Result<(), CompleteError>> + Send
    where
        X: Executor + ?Sized,
        T: Serialize + ?Sized;

    /// Returns it as a statement, for drivers that taskq does not know.
    ///
    /// # Errors
    /// [`CompleteError::Output`] when the output cannot be stored, [`StoreError::NoTransaction`] when the worker's store
    /// is in memory.
    fn complete_statement<T>(&self, output: &T) -> Result<Statement<(), CompleteError>, CompleteError>
    where
        T: Serialize + ?Sized;
}

/// Why a success was not recorded in the transaction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompleteError {
    /// The output does not serialise, holds what JSON or PostgreSQL cannot store, or is larger than 1 MiB. Nothing was
    /// sent.
    #[error("the output cannot be stored")]
    Output(#[source] JsonError),
    /// The attempt has lost its job: another one runs or has ended it, or the worker's lease is over.
    #[error("the attempt has lost its job{}: roll the transaction back", as_status(*status))]
    Stale {
        /// Where the job stands; `None` when it is not there any more.
        status: Option<Status>,
    },
    /// The store takes part in no transaction, the transaction had been aborted before, or the server refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn as_status(status: Option<Status>) -> String {
    status.map_or_else(|| ", which is gone".to_owned(), |status| format!(", which is {status}"))
}

mod sealed {
    pub trait Sealed {}
}

impl sealed::Sealed for Context {}

const COMPLETE: &str = r#"
SELECT pg_catalog.json_build_array(c.reason, c.status)::pg_catalog.text
FROM pg_catalog.jsonb_to_record($1::pg_catalog.text::pg_catalog.jsonb)
    d(worker pg_catalog.uuid, job pg_catalog.uuid, epoch pg_catalog.int8, result pg_catalog.jsonb)
CROSS JOIN LATERAL "{schema}".complete(d.worker, d.job, d.epoch, d.result) c"#;

#[derive(Serialize)]
struct Document<'a> {
    worker: WorkerId,
    job: JobId,
    epoch: Epoch,
    result: &'a Json,
}

#[derive(Deserialize)]
struct Row(String, Option<Status>);

impl CompleteIn for Context {
    fn complete_in<X, T>(
        &self,
        tx: &mut X,
        output: &T,
    ) -> impl Future<Output = Result<(), CompleteError>> + Send
    where
        X: Executor + ?Sized,
        T: Serialize + ?Sized,
    {
        // Before the first await, so that the output need not be `Sync`.
        let statement = self.complete_statement(output);
        async move {
            let statement = statement?;
            let answer = tx.run(statement.sql(), statement.json(), &statement.schema).await?;
            statement.answered(&answer)
        }
    }

    fn complete_statement<T>(&self, output: &T) -> Result<Statement<(), CompleteError>, CompleteError>
    where
        T: Serialize + ?Sized,
    {
        let schema = schema_of(self.client())?;
        // An output of `null` is stored as none, as it is when the worker settles.
        let result = Json::from_value(output, RESULT_LIMIT).map_err(CompleteError::Output)?;
        let document =
            Document { worker: self.worker(), job: self.id(), epoch: self.epoch(), result: &result };
        let json =
            serde_json::to_string(&document).map_err(|error| StoreError::invalid(error.to_string()))?;
        let ctx = self.clone();
        Ok(Statement::new(schema, COMPLETE, json, move |text| {
            read(text)?;
            // Before the commit, after which the store lists the attempt no more.
            ctx.note_completed();
            Ok(())
        }))
    }
}

fn read(text: &str) -> Result<(), CompleteError> {
    let unreadable = |message: String| StoreError::Answer { message };
    let Row(word, status) = serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))?;
    match SettleReason::from_word(&word) {
        Some(SettleReason::Applied | SettleReason::Repeated) => Ok(()),
        Some(SettleReason::Stale | SettleReason::Gone) => Err(CompleteError::Stale { status }),
        None => Err(unreadable(format!("unknown reason {word:?}")).into()),
    }
}
