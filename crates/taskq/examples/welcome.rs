//! Enqueues one job and runs it: `cargo run -p taskq --example welcome -- postgres://…`, or without a database.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskq::prelude::*;

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "mail.welcome", queue = "mail", output = Receipt, max_attempts = 10)]
struct SendWelcome {
    user_id: i64,
}

#[derive(Serialize, Deserialize, Debug)]
struct Receipt {
    message: String,
}

async fn send(job: SendWelcome, ctx: Context) -> JobResult<Receipt> {
    if ctx.epoch().0 == 1 {
        return Err(JobError::snooze(Duration::from_millis(100)));
    }
    Ok(Receipt { message: format!("welcome, user {}", job.user_id) })
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let taskq = match std::env::args().nth(1) {
        Some(url) => {
            TaskQ::migrate_url(&url).await?;
            TaskQ::connect(&url).await?
        }
        None => TaskQ::in_memory(),
    };
    let worker = Worker::builder(&taskq).queue("mail", 10).handle::<SendWelcome>(send).build()?.start();
    let handle = taskq.enqueue(&SendWelcome { user_id: 7 }).await?;
    println!("{:?}", handle.wait_timeout(Duration::from_secs(30)).await?);
    worker.stop();
    println!("{:?}", worker.join().await?);
    Ok(())
}
