//! Enqueues a job in the transaction that writes what it is about, by sqlx: both are committed or neither.
//!
//! `cargo run -p taskq --example sqlx_transaction -- postgres://…`. A program of your own depends on taskq with the
//! feature `sqlx-0_9`.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use taskq::prelude::*;

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "order.confirm", queue = "orders", output = String)]
struct ConfirmOrder {
    order: i64,
}

/// Writes an order and the job that confirms it.
async fn place_order(
    pool: &PgPool,
    taskq: &TaskQ,
    customer: &str,
) -> anyhow::Result<JobHandle<ConfirmOrder>> {
    let mut tx = pool.begin().await?;
    let insert = "INSERT INTO public.orders (customer) VALUES ($1) RETURNING id";
    let order = sqlx::query_scalar(insert).bind(customer).fetch_one(&mut *tx).await?;
    let handle = taskq.enqueue(&ConfirmOrder { order }).in_tx(&mut tx).await?;
    // Returning here rolls back both.
    anyhow::ensure!(!customer.is_empty(), "an order needs a customer");
    tx.commit().await?;
    Ok(handle)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::args().nth(1).context("say the URL of a database")?;
    TaskQ::migrate_url(&url).await?;
    let taskq = TaskQ::connect(&url).await?;
    let pool = PgPool::connect(&url).await?;
    let table = "CREATE TABLE IF NOT EXISTS public.orders (id bigserial PRIMARY KEY, customer text NOT NULL)";
    sqlx::raw_sql(table).execute(&pool).await?;

    let customers = pool.clone();
    let confirm = move |job: ConfirmOrder, _: Context| {
        let pool = customers.clone();
        async move {
            let customer = "SELECT customer FROM public.orders WHERE id = $1";
            let customer: String = sqlx::query_scalar(customer).bind(job.order).fetch_one(&pool).await?;
            Ok(format!("confirmed to {customer}"))
        }
    };
    let worker = Worker::builder(&taskq).queue("orders", 10).handle::<ConfirmOrder>(confirm).build()?.start();

    if let Err(error) = place_order(&pool, &taskq, "").await {
        println!("refused: {error}");
    }
    let handle = place_order(&pool, &taskq, "Ada").await?;
    println!("{}", handle.wait_timeout(Duration::from_mins(1)).await?);
    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM public.orders").fetch_one(&pool).await?;
    worker.stop();
    let report = worker.join().await?;
    println!("{orders} order, {} job", report.succeeded + report.failed);
    Ok(())
}
