//! Enqueues a large number of small jobs and works through them; of those that succeed nothing is kept.
//!
//! `cargo run --release -p taskq --example batch -- postgres://… [100000]`

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use taskq::prelude::*;

/// How many jobs one call carries: enough to be fast, few enough to be held in memory twice.
const CALL: u64 = 10_000;

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "number.add", queue = "numbers", keep = none)]
struct Add(u64);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let url = args.next().context("say the URL of a database")?;
    let jobs: u64 = args.next().map_or(Ok(100_000), |number| number.parse())?;
    TaskQ::migrate_url(&url).await?;
    let taskq = TaskQ::connect(&url).await?;

    let begun = Instant::now();
    for first in (0..jobs).step_by(usize::try_from(CALL)?) {
        taskq.enqueue_many::<Add>((first..jobs.min(first + CALL)).map(Add)).await?;
    }
    println!("enqueued {jobs} jobs in {:.1?}", begun.elapsed());

    let begun = Instant::now();
    let (sum, counter) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (into, count) = (Arc::clone(&sum), Arc::clone(&counter));
    let add = move |job: Add, _: Context| {
        into.fetch_add(job.0, Ordering::Relaxed);
        count.fetch_add(1, Ordering::Relaxed);
        async { Ok(()) }
    };
    let worker = Worker::builder(&taskq).queue("numbers", 100).handle::<Add>(add).build()?.start();
    while worker.counts().succeeded < jobs {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("worked through them in {:.1?}", begun.elapsed());
    worker.stop();
    let report = worker.join().await?;
    // Each at least once; more often only when a worker was lost.
    let (sum, runs) = (sum.load(Ordering::Relaxed), counter.load(Ordering::Relaxed));
    println!("{} succeeded in {runs} runs, the sum is {sum}", report.succeeded);
    Ok(())
}
