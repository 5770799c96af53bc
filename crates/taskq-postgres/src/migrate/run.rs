//! Running steps on a connection, one migrator at a time.

use std::collections::HashMap;
use std::time::Duration;

use taskq_core::store::StoreError;
use tokio::time::{Instant, sleep};
use tokio_postgres::error::ErrorPosition;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::error::MigrateError;
use super::ledger::Entry;
use super::plan::{Action, DEFINITION, LOCK_TIMEOUT, Mode, SIGNATURE, State, Step, drop_invalid};
use crate::codec::Columns;
use crate::connect::{Opened, Start, open};
use crate::dsn::Dsn;
use crate::error;
use crate::mode::{changes_sessions, is_seen};
use crate::role::Role;
use crate::schema::SchemaName;

/// How long to wait before a lock is tried again. It is never waited for in the server: a session that waits
/// there holds a snapshot, which a concurrent index build would wait for in turn.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two attempts to get the locks of a file: pauses double, so that whoever waits behind an attempt
/// waits for a small part of the time.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The advisory lock that a migrator of this schema holds.
pub(super) fn lock_key(schema: &SchemaName) -> i64 {
    schema.lock_key("migrate")
}

/// A connection for migrations.
pub(super) struct Link {
    client: Client,
    schema: SchemaName,
    major: u32,
    /// Whether any transaction may meet another session.
    is_pooled: bool,
    /// The server's process, which must stay the same: it holds the lock.
    backend: i32,
}

impl Link {
    pub(super) async fn open(dsn: &Dsn, schema: &SchemaName) -> Result<Self, MigrateError> {
        let Opened { client, connection, major, local, .. } = open(dsn, Role::Migrate, Start::Set).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the migration's connection ended");
            }
        });
        let is_pooled = !is_seen(&client, local).await? && changes_sessions(dsn, &client).await?;
        let mut link = Self { client, schema: schema.clone(), major, is_pooled, backend: 0 };
        if !is_pooled {
            link.batch(&Role::Migrate.session_settings(major)).await?;
        }
        link.backend = link.backend().await?;
        Ok(link)
    }

    /// Reads what is there.
    pub(super) async fn state(&self) -> Result<State, MigrateError> {
        let rows = self
            .query(
                "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = $1),
                    EXISTS (SELECT FROM pg_catalog.pg_class c
                        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                        WHERE n.nspname = $1 AND c.relname = 'schema_migrations')",
                &[(&self.schema.as_str(), Type::TEXT)],
            )
            .await?;
        let (mut has_schema, mut has_ledger) = (false, false);
        if let Some(row) = rows.first() {
            let mut columns = Columns::of(row);
            has_schema = columns.read()?;
            has_ledger = columns.read()?;
        }
        let mut entries = Vec::new();
        if has_ledger {
            let sql = self.schema.render(include_str!("../../sql/queries/ledger.sql"));
            for row in self.query(&sql, &[]).await? {
                entries.push(Entry::read(&row)?);
            }
        }
        Ok(State { has_schema, has_ledger, entries, major: self.major })
    }

    /// Reads the functions of the schema: what each is called, and the hash of its definition.
    pub(super) async fn definitions(&self) -> Result<HashMap<String, String>, MigrateError> {
        let sql = format!(
            "SELECT {SIGNATURE}, {DEFINITION}
            FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
            WHERE n.nspname = $1 AND p.prokind = 'f'"
        );
        let mut definitions = HashMap::new();
        for row in self.query(&sql, &[(&self.schema.as_str(), Type::TEXT)]).await? {
            let mut columns = Columns::of(&row);
            definitions.insert(columns.read()?, columns.read()?);
        }
        Ok(definitions)
    }

    /// Refuses to change anything where the lock and the settings would be left in sessions of others.
    pub(super) fn check_session(&self) -> Result<(), MigrateError> {
        if self.is_pooled { Err(MigrateError::Pooler) } else { Ok(()) }
    }

    /// Takes the lock that only one migrator of this schema holds.
    pub(super) async fn lock(&self, patience: Duration) -> Result<(), MigrateError> {
        let deadline = Instant::now() + patience;
        let key = lock_key(&self.schema);
        loop {
            let rows =
                self.query("SELECT pg_catalog.pg_try_advisory_lock($1)", &[(&key, Type::INT8)]).await?;
            let locked = rows.first().map(|row| Columns::of(row).read::<bool>()).transpose()?;
            if locked == Some(true) {
                return self.check_backend().await;
            }
            if Instant::now() + PAUSE >= deadline {
                return Err(MigrateError::Busy(patience));
            }
            sleep(PAUSE).await;
        }
    }

    /// Gives the lock back.
    pub(super) async fn unlock(&self) -> Result<(), MigrateError> {
        let key = lock_key(&self.schema);
        self.query("SELECT pg_catalog.pg_advisory_unlock($1)", &[(&key, Type::INT8)]).await.map(drop)
    }

    /// Runs one step; one that does not get its locks is tried again.
    pub(super) async fn run(&self, step: &Step, patience: Duration) -> Result<(), MigrateError> {
        let deadline = Instant::now() + patience;
        let mut pause = PAUSE;
        loop {
            let result = match step.mode {
                Mode::Transaction => self.run_transaction(step).await,
                Mode::Statements => self.run_statements(step).await,
            };
            match result {
                // 55P03: the lock timeout; 40P01: a deadlock with somebody who came in another order.
                Err(MigrateError::Statement { sqlstate, .. })
                    if sqlstate == "55P03" || sqlstate == "40P01" =>
                {
                    if Instant::now() + pause >= deadline {
                        return Err(MigrateError::Locked { name: step.name.clone(), waited: patience });
                    }
                    tracing::info!(step = step.name, "a table is locked; trying again");
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                result => return result,
            }
        }
    }

    async fn run_transaction(&self, step: &Step) -> Result<(), MigrateError> {
        self.batch(&format!("BEGIN; SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")).await?;
        let result = self.run_statements(step).await;
        let end = self.batch(if result.is_ok() { "COMMIT" } else { "ROLLBACK" }).await;
        result.and(end)
    }

    async fn run_statements(&self, step: &Step) -> Result<(), MigrateError> {
        self.check_backend().await?;
        for action in &step.actions {
            match action {
                Action::Run(statement) => self.execute(step, statement).await?,
                Action::DropInvalid(index) => {
                    for row in self.query(&drop_invalid(&self.schema, index), &[]).await? {
                        let drop: String = Columns::of(&row).read()?;
                        tracing::info!(
                            step = step.name,
                            index,
                            "an index that was not built to its end is dropped"
                        );
                        self.execute(step, &drop).await?;
                    }
                }
            }
        }
        Ok(())
    }

    async fn execute(&self, step: &Step, statement: &str) -> Result<(), MigrateError> {
        let done = self.client.batch_execute(statement).await;
        done.map_err(|error| self.refused(&step.name, statement, error))
    }

    /// Makes sure that the session is the one that took the lock.
    async fn check_backend(&self) -> Result<(), MigrateError> {
        if self.backend().await? == self.backend { Ok(()) } else { Err(MigrateError::Pooler) }
    }

    async fn backend(&self) -> Result<i32, MigrateError> {
        let rows = self.query("SELECT pg_catalog.pg_backend_pid()", &[]).await?;
        let row = rows.first().ok_or_else(|| StoreError::Answer { message: "no backend pid".to_owned() })?;
        Ok(Columns::of(row).read()?)
    }

    /// Asks with an unnamed statement, so that a pooler is met by the check for it and not by an error.
    pub(super) async fn query(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, MigrateError> {
        let rows = if self.is_pooled {
            let start = Role::Migrate.transaction_start(self.major, None);
            let (begun, rows, ended) = tokio::join!(biased;
                self.client.batch_execute(&start),
                self.client.query_typed(sql, params),
                self.client.batch_execute("COMMIT"),
            );
            begun.and(rows).and_then(|rows| ended.map(|()| rows))
        } else {
            self.client.query_typed(sql, params).await
        };
        rows.map_err(|error| error::of_call(error, &self.schema).into())
    }

    async fn batch(&self, sql: &str) -> Result<(), MigrateError> {
        let result = self.client.batch_execute(sql).await;
        result.map_err(|error| error::of_call(error, &self.schema).into())
    }

    fn refused(&self, name: &str, sql: &str, error: tokio_postgres::Error) -> MigrateError {
        let Some(db) = error.as_db_error() else {
            return error::of_call(error, &self.schema).into();
        };
        let line = match db.position() {
            Some(ErrorPosition::Original(position)) => {
                let before = sql.chars().take(*position as usize).filter(|c| *c == '\n').count();
                Some(before + 1)
            }
            _ => None,
        };
        let mut message = db.message().to_owned();
        if db.code().code() == "42501" {
            message.push_str(
                "; the role that migrates needs CREATE on the database for a new schema, and must own the \
                 schema's tables and functions",
            );
        }
        MigrateError::Statement {
            name: name.to_owned(),
            sqlstate: db.code().code().to_owned(),
            message,
            line,
        }
    }
}
