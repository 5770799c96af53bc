//! The engine's economy: how many calls, of what size.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use taskq_core::client::{Client, WaitError};
use taskq_core::model::{Outcome, Status};
use taskq_core::store::StoreError;
use taskq_core::worker::{Context, Worker, WorkerHandle};
use tokio::sync::Semaphore;

use crate::jobs::*;
use crate::probe::*;

fn start(client: &Client, slots: u32) -> WorkerHandle {
    let builder = Worker::builder(client).queue(QUEUE, slots);
    builder.handle::<Double>(async |job: Double, _| Ok(job.value)).build().unwrap().start()
}

async fn enqueue(client: &Client, jobs: i64) -> Vec<taskq_core::client::JobHandle<Double>> {
    client.enqueue_many::<Double>((0..jobs).map(|value| Double { value })).await.unwrap()
}

async fn stop(worker: WorkerHandle) -> taskq_core::worker::ShutdownReport {
    worker.stop();
    worker.join().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn outcomes_gather_only_while_a_settle_is_in_flight() {
    let (store, client) = Probe::simulated().shared();
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sizes);
    store.fail(move |call| {
        if let Call::Settle(batch) = call {
            seen.lock().unwrap().push(batch.len());
        }
        None
    });
    let ended = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&ended);
    let worker = Worker::builder(&client)
        .queue(QUEUE, 1_000)
        .handle::<Double>(move |job: Double, _| {
            counter.fetch_add(1, Ordering::SeqCst);
            async move { Ok(job.value) }
        })
        .build()
        .unwrap()
        .start();
    let alone = enqueue(&client, 1).await.remove(0);
    alone.wait_timeout(DEADLINE).await.unwrap();
    assert_eq!(*sizes.lock().unwrap(), [1], "one alone is settled at once");

    let rest = enqueue(&client, 500).await;
    until("all have ended", async || ended.load(Ordering::SeqCst) == 501).await;
    for handle in &rest {
        handle.wait_timeout(DEADLINE).await.unwrap();
    }
    assert_eq!(stop(worker).await.succeeded, 501);
    let sizes = sizes.lock().unwrap();
    assert_eq!(sizes.iter().sum::<usize>(), 501);
    assert!(sizes.len() <= 20, "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn while_a_settle_hangs_slots_are_free_and_memory_is_bounded() {
    let (store, client) = Probe::simulated().shared();
    let handles = enqueue(&client, 12_000).await;
    store.close();
    let worker = start(&client, 100);
    // Time passes only while nobody can go on.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let claims = store.count("claim");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(store.count("claim"), claims, "claiming pauses");
    assert_eq!(store.count("settle"), 1, "one settle is in flight at a time");
    let running = client.store().queues().await.unwrap()[0].running.value;
    assert!((8_000..=8_100).contains(&running), "{running} jobs are held");
    store.open();
    for handle in &handles {
        handle.wait_timeout(DEADLINE).await.unwrap();
    }
    assert_eq!(stop(worker).await.succeeded, 12_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_never_exceeded_and_all_are_used() {
    let (_, client) = Probe::new().shared();
    let (now, most) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let full = Arc::new(Semaphore::new(0));
    let counters = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&full));
    let worker = Worker::builder(&client)
        .queue(QUEUE, 7)
        .handle::<Double>(move |job: Double, _| {
            let (now, most, full) = counters.clone();
            async move {
                let running = now.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(running, Ordering::SeqCst);
                if running == 7 {
                    full.close();
                }
                // The first ones wait for each other, the rest come and go.
                let _ = full.acquire().await;
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(job.value)
            }
        })
        .build()
        .unwrap()
        .start();
    for handle in enqueue(&client, 200).await {
        handle.wait_timeout(DEADLINE).await.unwrap();
    }
    stop(worker).await;
    assert_eq!(most.load(Ordering::SeqCst), 7);
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_is_woken() {
    let (store, client) = Probe::simulated().shared();
    let worker = start(&client, 10);
    until("the first look", async || store.count("claim") >= 1).await;
    let handle = client.enqueue(&Double { value: 5 }).await.unwrap();
    let waited = handle.wait_timeout(Duration::from_millis(20)).await;
    assert_eq!(waited.unwrap(), 5, "long before the safety poll");
    stop(worker).await;
}

#[tokio::test(start_paused = true)]
async fn a_scheduled_job_starts_when_it_is_due() {
    let (_, client) = Probe::simulated().shared();
    let worker = start(&client, 1);
    let delay = Duration::from_millis(300);
    let begun = tokio::time::Instant::now();
    let handle = client.enqueue(&Double { value: 1 }).run_in(delay).await.unwrap();
    handle.wait_timeout(DEADLINE).await.unwrap();
    let took = begun.elapsed();
    assert!(took >= delay && took < delay + Duration::from_millis(400), "{took:?}");
    stop(worker).await;
}

#[tokio::test]
async fn an_outcome_survives_an_unavailable_store() {
    for probe in [Probe::new(), Probe::new().losing_answers()] {
        let (store, client) = probe.shared();
        let mut left = 4;
        store.fail(move |call| {
            let fails = matches!(call, Call::Settle(_)) && left > 0;
            left -= u32::from(fails);
            fails.then(unavailable)
        });
        let worker = start(&client, 1);
        let handle = client.enqueue(&Double { value: 9 }).await.unwrap();
        assert_eq!(handle.wait_timeout(DEADLINE).await.unwrap(), 9);
        let report = stop(worker).await;
        assert_eq!((report.succeeded, report.stale, report.unsettled), (1, 0, 0));
    }
}

#[tokio::test]
async fn an_outcome_that_the_store_refuses_spoils_no_other() {
    let (store, client) = Probe::new().shared();
    store.fail(|call| {
        let refused = |outcome: &Outcome| matches!(outcome, Outcome::Succeeded { result: Some(result) } if result.as_str() == "13");
        let Call::Settle(batch) = call else { return None };
        let message = "told to be".to_owned();
        batch
            .iter()
            .any(|settlement| refused(&settlement.outcome))
            .then(|| StoreError::Database { sqlstate: "22P05".to_owned(), message })
    });
    let handles = enqueue(&client, 40).await;
    let worker = start(&client, 40);
    for (value, handle) in (0..).zip(&handles) {
        if value == 13 {
            let refused = until_status(&client, handle.id(), Status::Scheduled).await;
            assert_eq!(refused.error.unwrap().class, "refused_outcome");
        } else {
            assert_eq!(handle.wait_timeout(DEADLINE).await.unwrap(), value);
        }
    }
    assert_eq!(stop(worker).await.succeeded, 39);
}

#[tokio::test]
async fn a_claim_that_fails_is_tried_again() {
    let (store, client) = Probe::new().shared();
    let mut left = 3;
    store.fail(move |call| {
        let fails = matches!(call, Call::Claim) && left > 0;
        left -= u32::from(fails);
        fails.then(|| StoreError::Database { sqlstate: "XX000".to_owned(), message: "told to be".to_owned() })
    });
    let worker = start(&client, 1);
    let handle = client.enqueue(&Double { value: 9 }).await.unwrap();
    assert_eq!(handle.wait_timeout(DEADLINE).await.unwrap(), 9);
    stop(worker).await;
}

#[tokio::test]
async fn queues_have_slots_of_their_own() {
    let (_, client) = Probe::new().shared();
    let gate = Arc::new(Semaphore::new(0));
    let pass = Arc::clone(&gate);
    let worker = Worker::builder(&client)
        .queue(QUEUE, 1)
        .queue("default", 1)
        .handle::<Double>(move |job: Double, _| {
            let pass = Arc::clone(&pass);
            async move {
                pass.acquire().await?.forget();
                Ok(job.value)
            }
        })
        .handle::<Note>(async |_: Note, _: Context| Ok(()))
        .build()
        .unwrap()
        .start();
    let stuck = enqueue(&client, 2).await;
    until_status(&client, stuck[0].id(), Status::Running).await;
    for _ in 0..3 {
        let note = client.enqueue(&Note { text: "n".to_owned() }).await.unwrap();
        note.wait_timeout(DEADLINE).await.unwrap();
    }
    let waiting = stuck[0].wait_timeout(Duration::from_millis(1)).await;
    assert!(matches!(waiting, Err(WaitError::Timeout)));
    assert_eq!(job(&client, stuck[1].id()).await.status, Status::Pending);
    gate.add_permits(2);
    for handle in stuck {
        handle.wait_timeout(DEADLINE).await.unwrap();
    }
    stop(worker).await;
}
