//! How a worker ends, whatever its handlers and the store do. In simulated time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use taskq_core::model::{JobId, Status};
use taskq_core::worker::{Context, StopReason, Worker};
use tokio::time::Instant;

use crate::jobs::*;
use crate::probe::*;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_hundred_handlers_of_which_one_never_returns() {
    let (store, client) = Probe::simulated().shared();
    let handles = client.enqueue_many::<Double>((0..100).map(|value| Double { value })).await.unwrap();
    let started = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&started);
    let worker = Worker::builder(&client)
        .queue(QUEUE, 100)
        .handle::<Double>(move |job: Double, ctx: Context| {
            counter.fetch_add(1, Ordering::SeqCst);
            async move {
                match job.value {
                    0 => {
                        ctx.cleanup().spawn(std::future::pending::<()>());
                    }
                    // Shorter than the grace, and longer.
                    1..50 => tokio::time::sleep(SECOND * 20).await,
                    _ => tokio::time::sleep(SECOND * 50).await,
                }
                Ok(job.value)
            }
        })
        .build()
        .unwrap()
        .start();
    until("all have started", async || started.load(Ordering::SeqCst) == 100).await;
    let more = client.enqueue(&Double { value: 1 }).await.unwrap();
    let begun = Instant::now();
    worker.stop();
    let claims = store.count("claim");
    let report = worker.join().await.unwrap();
    assert!(store.count("claim") <= claims + 1, "nothing is claimed any more");
    let took = begun.elapsed();
    assert!((SECOND * 40..SECOND * 41).contains(&took), "grace and forced grace: {took:?}");
    assert_eq!((report.succeeded, report.released, report.stuck), (49, 50, 1));
    assert_eq!((report.unsettled, report.stale, report.exit_code()), (0, 0, 1));
    for (index, handle) in handles.iter().enumerate() {
        let job = job(&client, handle.id()).await;
        let expected = match index {
            0 => (Status::Running, 1),
            1..50 => (Status::Succeeded, 1),
            _ => (Status::Pending, 0),
        };
        assert_eq!((job.status, job.attempt), expected, "{index}");
    }
    assert_eq!(job(&client, more.id()).await.status, Status::Pending);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_answered_after_the_stop_starts_nothing() {
    for late in [SECOND * 5, SECOND * 50] {
        let (store, client) = Probe::simulated().shared();
        let handle = client.enqueue(&Double { value: 1 }).await.unwrap();
        store.close();
        store.act(|call| matches!(call, Call::Claim).then_some(Act::Hold));
        let started = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&started);
        let worker = Worker::builder(&client)
            .queue(QUEUE, 1)
            .handle::<Double>(move |job: Double, _| {
                counter.fetch_add(1, Ordering::SeqCst);
                async move { Ok(job.value) }
            })
            .build()
            .unwrap()
            .start();
        until_status(&client, handle.id(), Status::Running).await;
        worker.stop();
        let opener = tokio::spawn({
            let store = Arc::clone(&store);
            async move {
                tokio::time::sleep(late).await;
                store.open();
            }
        });
        let report = worker.join().await.unwrap();
        let job = job(&client, handle.id()).await;
        assert_eq!((job.status, job.attempt), (Status::Pending, 0));
        assert_eq!((started.load(Ordering::SeqCst), report.stale, report.exit_code()), (0, 0, 0));
        opener.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn handlers_are_told_at_the_end_of_the_grace_and_lose_no_attempt() {
    let (_, client) = Probe::simulated().shared();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = Arc::clone(&told);
    let worker = Worker::builder(&client)
        .queue(QUEUE, 2)
        .handle::<Double>(move |job: Double, ctx: Context| {
            let tells = Arc::clone(&tells);
            async move {
                ctx.cancelled().cancelled().await;
                tells.lock().unwrap().push((Instant::now(), ctx.stop_reason()));
                if job.value == 0 { Err("interrupted".into()) } else { Ok(job.value) }
            }
        })
        .shutdown_grace(SECOND * 3)
        .build()
        .unwrap()
        .start();
    let handles = client.enqueue_many::<Double>((0..2).map(|value| Double { value })).await.unwrap();
    for handle in &handles {
        until_status(&client, handle.id(), Status::Running).await;
    }
    let begun = Instant::now();
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.succeeded, report.released, report.failed, report.exit_code()), (1, 1, 0, 0));
    for (at, reason) in told.lock().unwrap().iter() {
        assert!((SECOND * 3..SECOND * 4).contains(&(*at - begun)));
        assert_eq!(*reason, Some(StopReason::ShuttingDown));
    }
    assert_eq!(job(&client, handles[0].id()).await.attempt, 0);
}

/// Starts a worker, lets one job run without end, and stops it while nothing is answered.
async fn stopped_in_an_outage(outage: Duration) -> (Duration, i32, Status, i32) {
    let (store, client) = Probe::simulated().shared();
    let worker = Worker::builder(&client)
        .queue(QUEUE, 1)
        .handle::<Double>(async |_: Double, _| std::future::pending().await)
        .shutdown_grace(SECOND * 2)
        .build()
        .unwrap()
        .start();
    let id: JobId = client.enqueue(&Double { value: 1 }).await.unwrap().id();
    until_status(&client, id, Status::Running).await;
    store.fail(|_| Some(unavailable()));
    let begun = Instant::now();
    worker.stop();
    let healer = tokio::spawn(async move {
        tokio::time::sleep(outage).await;
        store.heal();
    });
    let report = worker.join().await.unwrap();
    let took = begun.elapsed();
    healer.abort();
    let job = job(&client, id).await;
    (took, report.exit_code(), job.status, job.attempt)
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_the_store_no_longer_than_the_lease() {
    let (took, code, status, attempt) = stopped_in_an_outage(SECOND * 10).await;
    assert_eq!((code, status, attempt), (0, Status::Pending, 0), "it came back in time");
    assert!(took < SECOND * 12, "{took:?}");
    let (took, code, status, _) = stopped_in_an_outage(SECOND * 300).await;
    assert_eq!((code, status), (1, Status::Running));
    assert!(took <= SECOND * 35, "{took:?}");
}
