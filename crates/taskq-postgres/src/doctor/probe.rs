//! A connection as any client gets it: without settings of ours, with unnamed statements only.

use std::future::Future;
use std::net::SocketAddr;

use taskq_core::store::StoreError;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::connect::{Opened, Start, open};
use crate::dsn::Dsn;
use crate::error;
use crate::mode::{changes_sessions, is_seen};
use crate::role::Role;
use crate::schema::SchemaName;

pub(super) struct Probe {
    client: Client,
    local: Option<SocketAddr>,
    schema: SchemaName,
}

impl Probe {
    pub(super) async fn open(dsn: &Dsn, schema: &SchemaName) -> Result<Self, StoreError> {
        let Opened { client, connection, local, .. } = open(dsn, Role::Doctor, Start::Bare).await?;
        // It ends with the client, and whoever waits for an answer learns of its failure.
        tokio::spawn(connection);
        Ok(Self { client, local, schema: schema.clone() })
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

    /// Says whether the connection goes through a pooler in transaction mode.
    pub(super) async fn is_pooled(&self, dsn: &Dsn) -> Result<bool, StoreError> {
        Ok(!is_seen(&self.client, self.local).await? && changes_sessions(dsn, &self.client).await?)
    }

    async fn answer<T>(
        &self,
        call: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, StoreError> {
        call.await.map_err(|error| error::of_call(error, &self.schema))
    }
}
