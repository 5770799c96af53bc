//! What can be done in a transaction of the caller's own.

use std::future::Future;

use taskq_core::client::{Cancel, Enqueue, EnqueueMany, EnqueueRaw, Retry};
use taskq_core::store::StoreError;

use super::{Executor, Statement};

/// Calls that can take part in a transaction of the caller's own: enqueues, cancellations and retries.
///
/// ```no_run
/// # use taskq_core::client::{Client, Job};
/// # use taskq_postgres::prelude::*;
/// # async fn example<J: Job>(
/// #     client: Client, mut connection: tokio_postgres::Client, job: J,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = connection.transaction().await?;
/// tx.execute("UPDATE orders SET paid = true WHERE id = $1", &[&7_i64]).await?;
/// let handle = client.enqueue(&job).in_tx(&mut tx).await?;
/// tx.commit().await?; // from here on there is a job
/// # Ok(())
/// # }
/// ```
///
/// What is out of bounds is refused before anything is sent, so that the transaction stays usable; an error of the server
/// aborts it, as that of any other statement does. The calls work at every isolation level. Above READ COMMITTED they
/// may fail because another transaction was in the way, with [`StoreError::Database`] and its SQLSTATE `40001`: then the
/// whole transaction is to be run again.
///
/// Workers are told at the commit. PostgreSQL lets transactions that notify commit one after the other: see
/// [`Notify::None`](taskq_core::model::Notify::None).
pub trait InTx: sealed::Sealed + Sized + Send {
    /// What the call answers.
    type Output: Send;
    /// What it fails with.
    type Error: From<StoreError> + Send;

    /// Returns it as a statement, for drivers that taskq does not know.
    ///
    /// # Errors
    /// What is refused before anything is sent. [`StoreError::NoTransaction`] when the client's store is in memory.
    fn statement(self) -> Result<Statement<Self::Output, Self::Error>, Self::Error>;

    /// Does it in the transaction: one statement, one round trip.
    ///
    /// # Errors
    /// What the call itself fails with. [`StoreError::Aborted`] when the transaction had been aborted before,
    /// [`StoreError::NoTransaction`] when the client's store is in memory.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the statement runs: roll back then.
    fn in_tx<X: Executor + ?Sized>(
        self,
        tx: &mut X,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send {
        async move {
            let statement = self.statement()?;
            let answer = tx.run(statement.sql(), statement.json(), &statement.schema).await?;
            statement.answered(&answer)
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

impl<J> sealed::Sealed for Enqueue<J> {}
impl<J> sealed::Sealed for EnqueueMany<J> {}
impl sealed::Sealed for EnqueueRaw {}
impl sealed::Sealed for Cancel {}
impl sealed::Sealed for Retry {}
