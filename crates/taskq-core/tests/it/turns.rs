//! What a worker remembers of a queue whose lanes take turns. In simulated time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use taskq_core::store::{QueueMode, StoreError};
use taskq_core::worker::{Context, Worker};

use crate::jobs::*;
use crate::probe::*;

/// Longer than what is claimed ahead, so that each claim is for one slot.
const LENGTH: Duration = Duration::from_millis(200);
const COHORTS: i64 = 5;

#[tokio::test(start_paused = true)]
async fn turns_go_on_where_they_stood_also_in_the_next_session() {
    let (store, client) = Probe::simulated().shared();
    client.set_queue(QUEUE, QueueMode::RoundRobin).await.unwrap();
    for value in 0..COHORTS * 8 {
        client.enqueue(&Double { value }).fairness_key(format!("cohort {}", value % COHORTS)).await.unwrap();
    }
    let starts = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&starts);
    let worker = Worker::builder(&client)
        .queue(QUEUE, 1)
        .handle::<Double>(move |job: Double, ctx: Context| {
            log.lock().unwrap().push((job.value % COHORTS, ctx.epoch().0));
            async move {
                tokio::time::sleep(LENGTH).await;
                Ok(job.value)
            }
        })
        .build()
        .unwrap()
        .start();
    until("some have run", async || starts.lock().unwrap().len() == 13).await;
    let mut left = 1;
    store.fail(move |call| {
        let lost = matches!(call, Call::Claim) && left > 0;
        left -= i32::from(lost);
        lost.then(|| StoreError::LeaseLost { message: "told to be".to_owned() })
    });
    until("some have run in the next session", async || starts.lock().unwrap().len() == 30).await;
    assert_eq!(store.count("register"), 2);
    worker.stop();
    worker.join().await.unwrap();
    let starts = starts.lock().unwrap();
    for pair in starts.windows(2) {
        assert_eq!(pair[1].0, (pair[0].0 + 1) % COHORTS, "the next lane: {starts:?}");
    }
}
