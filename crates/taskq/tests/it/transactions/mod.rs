//! Calls in a transaction of the caller's own.

mod complete;
mod refusals;
mod round_trips;
mod sqlx;
mod tokio_postgres;

use std::time::Duration;

use taskq::prelude::*;
use taskq_testkit::TestDatabase;
use uuid::Uuid;

use crate::manual::database;

/// How long anything may take that takes moments on an idle machine.
const WITHIN: Duration = Duration::from_secs(30);

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(actor = "order.paid", queue = "orders")]
struct OrderPaid {
    order: i64,
}

/// A database with a table of the caller's own, and a client.
struct Scene {
    database: TestDatabase,
    taskq: TaskQ,
    admin: ::tokio_postgres::Client,
}

impl Scene {
    async fn new() -> Self {
        let database = database().await;
        let taskq = TaskQ::connect(database.dsn()).await.unwrap();
        let admin = database.connect().await.unwrap();
        admin.batch_execute("CREATE TABLE public.orders (id bigint PRIMARY KEY)").await.unwrap();
        Self { database, taskq, admin }
    }

    /// How many orders are written, and the jobs with their status.
    async fn written(&self) -> (i64, Vec<(Uuid, String)>) {
        let orders = self.admin.query_one("SELECT count(*) FROM public.orders", &[]).await.unwrap().get(0);
        let jobs =
            self.admin.query("SELECT id, status::text FROM taskq.jobs ORDER BY id", &[]).await.unwrap();
        (orders, jobs.iter().map(|row| (row.get(0), row.get(1))).collect())
    }
}
