//! Moves money by jobs, each exactly once: the handler writes its own success in the transaction of its deed.
//!
//! `cargo run -p taskq --example complete_in_transaction -- postgres://…`

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use taskq::prelude::*;
use tokio_postgres::{Client as Connection, NoTls};

const SETUP: &str =
    "CREATE TABLE IF NOT EXISTS public.accounts (id int PRIMARY KEY, balance bigint NOT NULL);
    TRUNCATE public.accounts;
    INSERT INTO public.accounts VALUES (1, 100), (2, 0)";

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "transfer", queue = "bank", output = i64, retry(fixed = "0s"))]
struct Transfer {
    from: i32,
    to: i32,
    amount: i64,
}

/// The output is the balance that the receiver has then.
async fn transfer(url: Arc<str>, job: Transfer, ctx: Context) -> JobResult<i64> {
    let mut connection = connect(&url).await?;
    let tx = connection.transaction().await?;
    let update = "UPDATE public.accounts SET balance = balance + $2 WHERE id = $1 RETURNING balance";
    tx.query_one(update, &[&job.from, &-job.amount]).await?;
    let balance: i64 = tx.query_one(update, &[&job.to, &job.amount]).await?.get(0);
    let mut tx = tx;
    ctx.complete_in(&mut tx, &balance).await?;
    if ctx.attempt() == 1 && job.amount > 10 {
        // As when the process dies here: nothing has happened, and the job is tried again.
        tx.rollback().await?;
        return Err(JobError::from("interrupted before the commit"));
    }
    tx.commit().await?;
    // Whatever happens from here on, the job has succeeded.
    Ok(balance)
}

async fn connect(url: &str) -> Result<Connection, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::args().nth(1).context("say the URL of a database")?;
    TaskQ::migrate_url(&url).await?;
    let taskq = TaskQ::connect(&url).await?;
    let admin = connect(&url).await?;
    admin.batch_execute(SETUP).await?;

    let shared: Arc<str> = url.into();
    let handler = move |job: Transfer, ctx: Context| transfer(Arc::clone(&shared), job, ctx);
    let worker = Worker::builder(&taskq).queue("bank", 4).handle::<Transfer>(handler).build()?.start();
    let amounts = [5, 20, 10, 15];
    let jobs = amounts.map(|amount| Transfer { from: 1, to: 2, amount });
    for handle in taskq.enqueue_many::<Transfer>(jobs).await? {
        handle.wait_timeout(Duration::from_mins(1)).await?;
    }
    worker.stop();
    let report = worker.join().await?;
    let balances = admin.query("SELECT balance FROM public.accounts ORDER BY id", &[]).await?;
    let balances: Vec<i64> = balances.iter().map(|row| row.get(0)).collect();
    println!("{} transfers, {} interruptions, balances {balances:?}", report.succeeded, report.failed);
    Ok(())
}
