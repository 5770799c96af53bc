//! Transactions of `sqlx` 0.9.

use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row, Transaction};
use taskq_core::store::StoreError;

use super::Executor;
use super::literal::literal;
use super::sealed::Run;
use crate::error;
use crate::schema::SchemaName;

impl Executor for PgConnection {}

impl Run for PgConnection {
    /// By the simple protocol: sqlx prepares every statement that has a parameter, which is a round trip more.
    async fn run(&mut self, sql: &str, json: &str, schema: &SchemaName) -> Result<String, StoreError> {
        let mut quoted = String::with_capacity(json.len() + json.len() / 8 + 3);
        literal(&mut quoted, json);
        self.run_whole(&sql.replacen("$1", &quoted, 1), schema).await
    }

    async fn run_whole(&mut self, sql: &str, schema: &SchemaName) -> Result<String, StoreError> {
        // Nothing in it but this crate's own text and literals.
        let row = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_one(self).await;
        let text = row.and_then(|row| row.try_get::<String, _>(0));
        text.map_err(|error| of_sqlx(error, schema))
    }
}

impl Executor for Transaction<'_, Postgres> {}

impl Run for Transaction<'_, Postgres> {
    async fn run(&mut self, sql: &str, json: &str, schema: &SchemaName) -> Result<String, StoreError> {
        PgConnection::run(self, sql, json, schema).await
    }

    async fn run_whole(&mut self, sql: &str, schema: &SchemaName) -> Result<String, StoreError> {
        PgConnection::run_whole(self, sql, schema).await
    }
}

impl Executor for PoolConnection<Postgres> {}

impl Run for PoolConnection<Postgres> {
    async fn run(&mut self, sql: &str, json: &str, schema: &SchemaName) -> Result<String, StoreError> {
        PgConnection::run(self, sql, json, schema).await
    }

    async fn run_whole(&mut self, sql: &str, schema: &SchemaName) -> Result<String, StoreError> {
        PgConnection::run_whole(self, sql, schema).await
    }
}

fn of_sqlx(error: sqlx::Error, schema: &SchemaName) -> StoreError {
    match &error {
        sqlx::Error::Database(said) => {
            let detail =
                said.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().and_then(|said| said.detail());
            let code = said.code().unwrap_or_default();
            error::of_transaction(&code, said.message(), detail, schema)
        }
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) => StoreError::Unavailable {
            message: "the connection was lost during a call".to_owned(),
            source: Some(error.into()),
        },
        _ => StoreError::Answer { message: error.to_string() },
    }
}
