//! A connection as any client gets it: without settings of ours, with unnamed statements only.

use std::future::Future;

use taskq_core::store::StoreError;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls, Row};

use crate::codec::{Columns, only};
use crate::dsn::Dsn;
use crate::error;
use crate::schema::SchemaName;

pub(super) struct Probe {
    client: Client,
    schema: SchemaName,
}

impl Probe {
    pub(super) async fn open(dsn: &Dsn, schema: &SchemaName) -> Result<Self, StoreError> {
        let servers = dsn.servers();
        let opened = tokio::time::timeout(dsn.connect_deadline(), dsn.plain_config().connect(NoTls)).await;
        let Ok(opened) = opened else {
            let message = format!("{servers} did not answer in time");
            return Err(StoreError::Unavailable { message, source: None });
        };
        let (client, connection) = opened.map_err(|error| error::of_connect(error, &servers))?;
        // It ends with the client, and whoever waits for an answer learns of its failure.
        tokio::spawn(connection);
        Ok(Self { client, schema: schema.clone() })
    }

    pub(super) fn schema(&self) -> &SchemaName {
        &self.schema
    }

    /// Runs a statement with its parameters.
    pub(super) async fn query(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, StoreError> {
        self.answer(self.client.query_typed(&self.schema.render(sql), params)).await
    }

    /// Runs statements without answers.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.answer(self.client.batch_execute(sql)).await
    }

    /// The process that serves the session, or the transaction.
    pub(super) async fn backend(&self) -> Result<i32, StoreError> {
        let rows = self.query("SELECT pg_catalog.pg_backend_pid()", &[]).await?;
        Columns::of(only(&rows)?).read()
    }

    async fn answer<T>(
        &self,
        call: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, StoreError> {
        call.await.map_err(|error| error::of_call(error, &self.schema))
    }
}
