//! What the store thinks a worker runs, and what it does run. In simulated time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use taskq_core::client::{Absence, Client, WaitError};
use taskq_core::model::{JobId, Keep, OutcomeKind, Settlement, Status};
use taskq_core::store::JobFilter;
use taskq_core::worker::{Context, Worker, WorkerHandle};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::jobs::*;
use crate::probe::*;

const SECOND: Duration = Duration::from_secs(1);

/// Starts a worker whose handler returns its epoch.
fn start(client: &Client) -> WorkerHandle {
    let builder = Worker::builder(client).queue(QUEUE, 4);
    builder.handle::<Double>(async |_: Double, ctx: Context| Ok(ctx.epoch().0)).build().unwrap().start()
}

#[tokio::test(start_paused = true)]
async fn a_job_of_a_claim_whose_answer_is_lost_runs_within_a_few_beats() {
    let (store, client) = Probe::simulated().shared();
    let handles = client.enqueue_many::<Double>((0..3).map(|value| Double { value })).await.unwrap();
    let mut left = 1;
    store.act(move |call| {
        let lost = matches!(call, Call::Claim) && left > 0;
        left -= u32::from(lost);
        lost.then_some(Act::Lose)
    });
    let begun = Instant::now();
    let worker = start(&client);
    for handle in &handles {
        assert_eq!(handle.wait_timeout(SECOND * 20).await.unwrap(), 2, "by its second epoch");
        assert_eq!(job(&client, handle.id()).await.attempt, 1, "no attempt is burnt");
        let attempts = client.store().attempts(handle.id()).await.unwrap();
        assert_eq!(
            attempts.iter().map(|attempt| attempt.outcome).collect::<Vec<_>>(),
            [OutcomeKind::Released]
        );
    }
    assert!(begun.elapsed() < SECOND * 6, "with the next beat: {:?}", begun.elapsed());
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.succeeded, report.released, report.stale), (3, 3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_is_only_slow_loses_nothing() {
    let (store, client) = Probe::simulated().shared();
    let handle = client.enqueue(&Double { value: 1 }).await.unwrap();
    store.close();
    store.act(|call| matches!(call, Call::Claim).then_some(Act::Hold));
    let worker = start(&client);
    until_in(SECOND * 120, "several comparisons", async || store.count("held") >= 5).await;
    assert_eq!(job(&client, handle.id()).await.status, Status::Running, "it is not taken for lost");
    store.open();
    assert_eq!(handle.wait_timeout(SECOND * 5).await.unwrap(), 1, "by its first epoch");
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.succeeded, report.released, report.stale), (1, 0, 0));
}

/// A process that is frozen between a claim and its answer: when it thaws, the answer is read before the heartbeat can
/// notice that the lease is over.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_answered_after_the_lease_starts_nothing() {
    let (store, client) = Probe::simulated().shared();
    let handle = client.enqueue(&Double { value: 1 }).await.unwrap();
    store.close();
    store.act(|call| matches!(call, Call::Claim).then_some(Act::Hold));
    let started = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&started);
    let worker = Worker::builder(&client)
        .queue(QUEUE, 4)
        .handle::<Double>(move |_: Double, ctx: Context| {
            log.lock().unwrap().push(ctx.epoch().0);
            async { Ok(0) }
        })
        .build()
        .unwrap()
        .start();
    until_in(SECOND * 20, "a claim and a beat", async || store.count("claim") > 0 && store.count("beat") > 0)
        .await;
    store.open();
    tokio::time::advance(SECOND * 60).await;
    handle.wait_timeout(SECOND * 120).await.unwrap();
    worker.stop();
    worker.join().await.unwrap();
    assert_eq!(*started.lock().unwrap(), [2], "only the epoch of the next session");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_found_among_claims_that_succeed() {
    let (store, client) = Probe::simulated().shared();
    let (feeding, feeder) = store.beside().shared();
    let mut claims = 0;
    store.act(move |call| {
        claims += i32::from(matches!(call, Call::Claim));
        (matches!(call, Call::Claim) && claims == 7).then_some(Act::Lose)
    });
    let worker = start(&client);
    let mut handles = Vec::new();
    for value in 0..200 {
        handles.push(feeder.enqueue(&Double { value }).await.unwrap());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut epochs = 0;
    for handle in handles {
        epochs += handle.wait_timeout(SECOND * 30).await.unwrap();
    }
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.succeeded, report.stale), (200, 0));
    assert!(report.released >= 1, "the seventh claim took something");
    assert_eq!(epochs, 200 + i64::try_from(report.released).unwrap());
    drop(feeding);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_the_store_does_not_know_is_ended_and_not_settled() {
    struct Ended(Arc<AtomicUsize>);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (store, client) = Probe::simulated().shared();
    let ended = Arc::new(AtomicUsize::new(0));
    let guard = Arc::clone(&ended);
    let worker = Worker::builder(&client)
        .queue(QUEUE, 4)
        .handle::<Double>(move |_, ctx: Context| {
            let guard = Ended(Arc::clone(&guard));
            async move {
                let _guard = guard;
                if ctx.epoch().0 == 1 {
                    std::future::pending::<()>().await;
                }
                Ok(ctx.epoch().0)
            }
        })
        .build()
        .unwrap()
        .start();
    let handle = client.enqueue(&Double { value: 1 }).await.unwrap();
    let running = until_status(&client, handle.id(), Status::Running).await;
    // Somebody else settles in its name.
    let outcome = taskq_core::model::Outcome::Released;
    let settlement = Settlement { id: running.id, epoch: running.epoch, outcome };
    client.store().settle(running.worker.unwrap(), vec![settlement]).await.unwrap();
    assert_eq!(handle.wait_timeout(SECOND * 5).await.unwrap(), 2);
    assert_eq!(ended.load(Ordering::SeqCst), 1, "the first attempt goes on");
    until("the first attempt is ended", async || ended.load(Ordering::SeqCst) == 2).await;
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.succeeded, report.released, report.stale, report.stuck), (1, 0, 0, 0));
    assert_eq!(store.count("register"), 1);
}

#[tokio::test(start_paused = true)]
async fn comparisons_reach_back_only_as_far_as_they_must() {
    let (store, client) = Probe::simulated().shared();
    let since = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&since);
    store.act(move |call| {
        if let Call::Held(since) = call {
            seen.lock().unwrap().push(since.is_some());
        }
        None
    });
    let gate = Arc::new(Semaphore::new(0));
    let pass = Arc::clone(&gate);
    let worker = Worker::builder(&client)
        .queue(QUEUE, 4)
        .handle::<Double>(move |job: Double, _| {
            let pass = Arc::clone(&pass);
            async move {
                pass.acquire().await?.forget();
                Ok(job.value)
            }
        })
        .build()
        .unwrap()
        .start();
    let handle = client.enqueue(&Double { value: 1 }).await.unwrap();
    tokio::time::sleep(SECOND * 150).await;
    let since = since.lock().unwrap().clone();
    assert!(since.len() >= 9, "one every three beats: {}", since.len());
    let expected: Vec<_> = (0..since.len()).map(|look| look % 4 != 0).collect();
    assert_eq!(since, expected, "the first of all, then one in four, is of everything");
    gate.add_permits(1);
    assert_eq!(handle.wait_timeout(SECOND).await.unwrap(), 1);
    worker.stop();
    worker.join().await.unwrap();
}

/// Completes its job itself, as in a transaction of its own that is committed, and returns when it is let.
fn start_completing(client: &Client, gate: &Arc<Semaphore>) -> WorkerHandle {
    let gate = Arc::clone(gate);
    let handler = move |_: Double, ctx: Context| {
        let gate = Arc::clone(&gate);
        async move {
            let store = ctx.client().store();
            store.complete(ctx.worker(), ctx.id(), ctx.epoch(), None).await?;
            ctx.note_completed();
            gate.acquire().await?.forget();
            Ok(1)
        }
    };
    Worker::builder(client).queue(QUEUE, 4).handle::<Double>(handler).build().unwrap().start()
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_has_completed_its_job_is_left_alone() {
    let (store, client) = Probe::simulated().shared();
    let (kept, unkept) = (client.enqueue(&Double { value: 1 }), client.enqueue(&Double { value: 2 }));
    let (kept, unkept) = (kept.await.unwrap(), unkept.keep(Keep::None).await.unwrap());
    let gate = Arc::new(Semaphore::new(0));
    let worker = start_completing(&client, &gate);
    until_in(SECOND * 20, "both have completed", async || {
        let left = client.store().jobs(JobFilter { limit: 10, ..JobFilter::default() }).await.unwrap();
        left.len() == 1 && left[0].status == Status::Succeeded
    })
    .await;
    let before = store.count("held");
    until_in(SECOND * 300, "several comparisons", async || store.count("held") >= before + 5).await;
    gate.add_permits(2);
    until_in(SECOND * 20, "both have returned", async || worker.counts().succeeded == 2).await;
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!(
        (report.succeeded, report.stale, report.stuck),
        (2, 0, 0),
        "repeated, and gone: both are done"
    );
    assert_eq!(kept.status().await.unwrap(), Status::Succeeded);
    let absent = unkept.status().await.unwrap_err();
    assert!(matches!(absent, WaitError::Absent(Absence::NotKept)), "{absent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_success_whose_job_is_gone_since_its_answer_was_lost_counts_as_done() {
    let (store, client) = Probe::simulated().shared();
    let handle = client.enqueue(&Double { value: 1 }).keep(Keep::None).await.unwrap();
    let mut left = 1;
    store.act(move |call| {
        let lost = matches!(call, Call::Settle(_)) && left > 0;
        left -= u32::from(lost);
        lost.then_some(Act::Lose)
    });
    let worker = start(&client);
    until_in(SECOND * 60, "it is settled", async || worker.counts().succeeded == 1).await;
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.succeeded, report.stale, report.unsettled), (1, 0, 0));
    let absent = handle.wait().await.unwrap_err();
    assert!(
        matches!(absent, WaitError::Absent(Absence::NotKept)) && absent.to_string().contains("keeps nothing")
    );
}

/// Whoever waits without knowing what is kept has seen the job before it was gone.
#[tokio::test(start_paused = true)]
async fn whoever_waits_learns_that_a_job_is_gone_because_nothing_of_it_is_kept() {
    let (_store, client) = Probe::simulated().shared();
    let handle = client.enqueue(&Double { value: 1 }).keep(Keep::None).await.unwrap();
    let waits = {
        let (client, id) = (client.clone(), handle.id());
        tokio::spawn(async move { client.wait_for(id, None).await })
    };
    tokio::time::sleep(SECOND).await;
    let worker = start(&client);
    let absent = waits.await.unwrap().unwrap_err();
    assert!(matches!(absent, WaitError::Absent(Absence::NotKept)), "{absent:?}");
    let stranger = client.wait_for(JobId::new(), None).await.unwrap_err();
    assert!(matches!(stranger, WaitError::Absent(Absence::NeverExisted)), "{stranger:?}");
    worker.stop();
    worker.join().await.unwrap();
}
