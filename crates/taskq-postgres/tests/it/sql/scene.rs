//! A migrated database with one session in it, and the calls that tests make.

use std::time::Duration;

use serde_json::{Value, json};
use taskq_testkit::{TestDatabase, wait_until};
use tokio_postgres::error::DbError;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

pub(crate) struct Scene {
    pub(crate) database: TestDatabase,
    pub(crate) client: Client,
}

/// A claimed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) id: Uuid,
    pub(crate) epoch: i64,
}

/// What `settle` answered for one outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) accepted: bool,
    pub(crate) reason: String,
    pub(crate) status: Option<String>,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::of(crate::database::migrated().await).await
    }

    /// A session in a migrated database.
    pub(crate) async fn of(database: TestDatabase) -> Self {
        let client = database.connect().await.unwrap();
        Self { database, client }
    }

    /// Another session in the same database.
    pub(crate) async fn session(&self) -> Client {
        self.database.connect().await.unwrap()
    }

    pub(crate) async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap();
    }

    pub(crate) async fn value<T: for<'a> tokio_postgres::types::FromSql<'a>>(&self, sql: &str) -> T {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// Registers a worker of queue `q` for actors `actor0`, `actor1`, ….
    pub(crate) async fn worker(&self, actors: usize) -> Uuid {
        let worker = Uuid::now_v7();
        self.client
            .execute(
                "SELECT taskq.register_worker($1, ARRAY['q'],
                     (SELECT array_agg('actor' || n) FROM generate_series(0, $2::bigint - 1) n), '1 hour')",
                &[&worker, &i64::try_from(actors).unwrap()],
            )
            .await
            .unwrap();
        worker
    }

    /// Enqueues jobs with the payloads 1, 2, … on queue `q`, by turns for `actor0` … `actor{actors - 1}`.
    pub(crate) async fn enqueue(&self, jobs: usize, actors: usize) {
        let documents: Vec<Value> = (0..jobs)
            .map(|n| json!({"queue": "q", "actor": format!("actor{}", n % actors), "payload": n + 1}))
            .collect();
        self.client
            .execute("SELECT count(*) FROM taskq.enqueue_many($1)", &[&Value::from(documents)])
            .await
            .unwrap();
    }

    /// Ends a worker's lease, as if it had not beaten.
    pub(crate) async fn expire(&self, worker: Uuid) {
        self.client
            .execute(
                "UPDATE taskq.workers SET lease_expires_at = now() - interval '1 s' WHERE id = $1",
                &[&worker],
            )
            .await
            .unwrap();
    }
}

/// Claims through the public function.
pub(crate) async fn claim(
    client: &Client,
    worker: Uuid,
    max_jobs: i32,
) -> Result<Vec<Attempt>, tokio_postgres::Error> {
    let rows = client
        .query("SELECT id, epoch FROM taskq.claim(ARRAY['q'], $1, $2, '1 hour')", &[&max_jobs, &worker])
        .await?;
    Ok(rows.iter().map(|row| Attempt { id: row.get(0), epoch: row.get(1) }).collect())
}

/// Settles through the public function, with the same fields for every attempt.
pub(crate) async fn settle(
    client: &Client,
    worker: Uuid,
    attempts: &[Attempt],
    fields: &Value,
) -> Vec<Verdict> {
    let documents: Vec<Value> = attempts
        .iter()
        .map(|attempt| {
            let mut document = fields.clone();
            document["id"] = json!(attempt.id);
            document["epoch"] = json!(attempt.epoch);
            document
        })
        .collect();
    let rows = client
        .query(
            "SELECT accepted, reason, status FROM taskq.settle($1, $2)",
            &[&worker, &Value::from(documents)],
        )
        .await
        .unwrap();
    rows.iter().map(verdict).collect()
}

fn verdict(row: &Row) -> Verdict {
    Verdict { accepted: row.get(0), reason: row.get(1), status: row.get(2) }
}

/// The error that the database raised.
pub(crate) fn raised(error: &tokio_postgres::Error) -> &DbError {
    error.as_db_error().unwrap_or_else(|| panic!("not from the database: {error:?}"))
}

/// Waits until some session is held up by a lock of the session with this backend.
pub(crate) async fn until_blocked_by(observer: &Client, pid: i32) {
    wait_until("a session waits for the other's lock", Duration::from_mins(1), async || {
        let query = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))";
        observer.query_one(query, &[&pid]).await.unwrap().get::<_, bool>(0)
    })
    .await;
}

pub(crate) async fn backend_pid(client: &Client) -> i32 {
    client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0)
}
