//! Taking part in a transaction of the caller's own, by whatever driver it was begun.

mod calls;
mod complete;
mod in_tx;
mod literal;
mod plain;
#[cfg(feature = "sqlx-0_9")]
mod sqlx_0_9;
mod statement;
mod tokio_postgres;

use std::future::Future;

use taskq_core::store::StoreError;

pub use complete::{CompleteError, CompleteIn};
pub use in_tx::InTx;
pub use statement::Statement;

use crate::schema::SchemaName;

/// A connection or a transaction of a driver that taskq can write through: those of `tokio-postgres` and, with the
/// feature `sqlx-0_9`, of `sqlx`. For every other driver there is [`InTx::statement`].
///
/// A connection in no transaction is one whose every statement commits by itself.
pub trait Executor: sealed::Run {}

mod sealed {
    use super::{Future, SchemaName, StoreError};

    /// Runs one statement in one round trip: its only parameter is a text, its answer one row of one text.
    pub trait Run: Send {
        fn run(
            &mut self,
            sql: &str,
            json: &str,
            schema: &SchemaName,
        ) -> impl Future<Output = Result<String, StoreError>> + Send;

        /// Runs one statement without parameters in one round trip: its answer is one row of one text.
        fn run_whole(
            &mut self,
            sql: &str,
            schema: &SchemaName,
        ) -> impl Future<Output = Result<String, StoreError>> + Send;
    }
}
