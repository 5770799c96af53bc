//! Transactions of `tokio-postgres`.

use std::future::Future;

use taskq_core::store::StoreError;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Transaction};

use super::Executor;
use super::sealed::Run;
use crate::error;
use crate::schema::SchemaName;

impl Executor for Transaction<'_> {}

impl Run for Transaction<'_> {
    async fn run(&mut self, sql: &str, json: &str, schema: &SchemaName) -> Result<String, StoreError> {
        answer(self.query_typed_one(sql, &[(&json, Type::TEXT)]), schema).await
    }

    async fn run_whole(&mut self, sql: &str, schema: &SchemaName) -> Result<String, StoreError> {
        answer(self.query_typed_one(sql, &[]), schema).await
    }
}

impl Executor for Client {}

impl Run for Client {
    async fn run(&mut self, sql: &str, json: &str, schema: &SchemaName) -> Result<String, StoreError> {
        answer(self.query_typed_one(sql, &[(&json, Type::TEXT)]), schema).await
    }

    async fn run_whole(&mut self, sql: &str, schema: &SchemaName) -> Result<String, StoreError> {
        answer(self.query_typed_one(sql, &[]), schema).await
    }
}

/// Unnamed, with the types said: one round trip, and nothing stays behind on the caller's connection.
async fn answer(
    call: impl Future<Output = Result<tokio_postgres::Row, tokio_postgres::Error>>,
    schema: &SchemaName,
) -> Result<String, StoreError> {
    let row = call.await.map_err(|error| error::in_transaction(error, schema))?;
    row.try_get(0).map_err(|error| StoreError::Answer { message: error.to_string() })
}
