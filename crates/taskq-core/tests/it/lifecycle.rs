//! How workers are built, stopped, and how they survive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use taskq_core::model::{JobId, QueueName, Status};
use taskq_core::store::StoreError;
use taskq_core::testing;
use taskq_core::worker::{BuildError, Context, DEFAULT_SLOTS, JobResult, RunError, StopReason, Worker};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::jobs::*;
use crate::probe::*;

async fn double(job: Double, _: Context) -> JobResult<i64> {
    Ok(job.value * 2)
}

async fn never(_: Double, _: Context) -> JobResult<i64> {
    std::future::pending().await
}

#[tokio::test]
async fn a_worker_that_could_not_work_is_refused() {
    let client = testing::client();
    let builder = || Worker::builder(&client);
    let error = |builder: taskq_core::worker::WorkerBuilder| builder.build().unwrap_err();
    assert_eq!(error(builder().handle::<Double>(double).queue("", 1)).to_string(), "queue is empty");
    assert_eq!(error(builder()), BuildError::NoQueue);
    assert_eq!(error(builder().queue(QUEUE, DEFAULT_SLOTS)), BuildError::NoHandler);
    let queue = QueueName::new(QUEUE).unwrap();
    let unserved = error(builder().queue("other", 1).handle::<Double>(double));
    assert!(matches!(&unserved, BuildError::UnservedQueue { queue: named, .. } if *named == queue));
    assert!(unserved.to_string().contains("add `.queue(\"numbers\", slots)`"), "{unserved}");
    let twice = builder().queue(QUEUE, 1).handle::<Double>(double).handle::<Double>(never);
    assert!(matches!(error(twice), BuildError::DuplicateHandler { .. }));
    let twice = builder().queue(QUEUE, 1).queue(QUEUE, 2).handle::<Double>(double);
    assert_eq!(error(twice), BuildError::DuplicateQueue { queue: queue.clone() });
    for slots in [0, 10_001] {
        let slotless = builder().queue(QUEUE, slots).handle::<Double>(double);
        assert_eq!(error(slotless), BuildError::Slots { queue: queue.clone(), slots });
    }
    let lease = Duration::from_millis(999);
    let hasty = builder().queue(QUEUE, 1).handle::<Double>(double).lease(lease);
    assert_eq!(error(hasty), BuildError::Lease { lease });
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_attempts_and_releases_those_that_outlast_the_grace() {
    let (_, client) = Probe::simulated().shared();
    let started = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&started);
    let worker = Worker::builder(&client)
        .queue(QUEUE, 4)
        .handle::<Double>(move |job: Double, _| {
            counter.fetch_add(1, Ordering::SeqCst);
            async move {
                match job.value {
                    0 => std::future::pending().await,
                    _ => tokio::time::sleep(Duration::from_millis(20)).await,
                }
                Ok(job.value)
            }
        })
        .shutdown_grace(Duration::from_millis(100))
        .build()
        .unwrap()
        .start();
    let short = client.enqueue(&Double { value: 1 }).await.unwrap();
    let endless = client.enqueue(&Double { value: 0 }).await.unwrap();
    until("both started", async || started.load(Ordering::SeqCst) == 2).await;
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.succeeded, report.released, report.stuck, report.unsettled), (1, 1, 0, 0));
    assert_eq!(job(&client, short.id()).await.status, Status::Succeeded);
    let released = job(&client, endless.id()).await;
    assert_eq!((released.status, released.attempt), (Status::Pending, 0), "no attempt is burnt");
    assert_eq!(client.store().stats().await.unwrap().workers, [], "the session is released");
}

#[tokio::test]
async fn a_second_stop_releases_at_once() {
    let client = testing::client();
    let handle = client.enqueue(&Double { value: 0 }).await.unwrap();
    let builder = Worker::builder(&client).queue(QUEUE, 4).handle::<Double>(never);
    let worker = builder.shutdown_grace(DEADLINE * 10).build().unwrap().start();
    until_status(&client, handle.id(), Status::Running).await;
    worker.stop();
    worker.stop_now();
    let report = tokio::time::timeout(DEADLINE, worker.join()).await.unwrap().unwrap();
    assert_eq!(report.released, 1);
}

#[tokio::test]
async fn only_the_first_session_is_refused_for_good() {
    let (store, client) = Probe::new().shared();
    store.fail(|call| matches!(call, Call::Register).then(|| StoreError::invalid("told to be")));
    let build = || Worker::builder(&client).queue(QUEUE, 1).handle::<Double>(double).build().unwrap();
    let error = build().start().join().await.unwrap_err();
    assert!(matches!(error, RunError::Refused(StoreError::Invalid { .. })), "{error:?}");

    let mut left = 3;
    store.fail(move |call| {
        let fails = matches!(call, Call::Register) && left > 0;
        left -= u32::from(fails);
        fails.then(unavailable)
    });
    let worker = build().start();
    let handle = client.enqueue(&Double { value: 2 }).await.unwrap();
    assert_eq!(handle.wait_timeout(DEADLINE).await.unwrap(), 4);
    worker.stop();
    worker.join().await.unwrap();
}

#[tokio::test]
async fn a_lost_lease_stops_the_attempts_and_a_new_session_begins() {
    struct Stopped(Arc<AtomicUsize>);
    impl Drop for Stopped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (store, client) = Probe::new().shared();
    let stopped = Arc::new(AtomicUsize::new(0));
    let guard = Arc::clone(&stopped);
    let worker = Worker::builder(&client)
        .queue(QUEUE, 1)
        .handle::<Double>(move |job: Double, ctx: Context| {
            let guard = Stopped(Arc::clone(&guard));
            async move {
                if ctx.epoch().0 == 1 {
                    std::future::pending::<()>().await;
                }
                drop(guard);
                Ok(job.value)
            }
        })
        .build()
        .unwrap()
        .start();
    let handle = client.enqueue(&Double { value: 3 }).await.unwrap();
    let first = until_status(&client, handle.id(), Status::Running).await.worker;
    let lost = AtomicBool::new(false);
    store.fail(move |call| {
        let lose = matches!(call, Call::Claim | Call::Beat(_)) && !lost.swap(true, Ordering::SeqCst);
        lose.then(|| StoreError::LeaseLost { message: "told to be".to_owned() })
    });
    assert_eq!(handle.wait_timeout(DEADLINE).await.unwrap(), 3, "released with its session, run in the next");
    assert_ne!(job(&client, handle.id()).await.worker, first);
    assert_eq!(stopped.load(Ordering::SeqCst), 2);
    assert_eq!(store.count("register"), 2);
    worker.stop();
    worker.join().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_beat_stops_before_its_lease_ends() {
    let (store, client) = Probe::simulated().shared();
    let lease = Duration::from_secs(1);
    let handle = client.enqueue(&Double { value: 3 }).await.unwrap();
    let builder = Worker::builder(&client).queue(QUEUE, 1).handle::<Double>(never);
    let begun = Instant::now();
    let worker = builder.lease(lease).build().unwrap().start();
    let first = until_status(&client, handle.id(), Status::Running).await.worker;
    store.fail(|call| matches!(call, Call::Beat(_)).then(unavailable));
    until("the attempt is stopped and the session is replaced", async || store.count("register") > 1).await;
    assert!(begun.elapsed() < lease, "{:?}", begun.elapsed());
    until("another session runs it", async || {
        let job = job(&client, handle.id()).await;
        job.status == Status::Running && job.worker != first
    })
    .await;
    worker.stop_now();
    worker.join().await.unwrap();
}

#[test]
fn a_blocked_runtime_of_the_user_does_not_stop_the_beats() {
    let engine = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let user = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (store, client) = Probe::new().on(engine.handle().clone()).shared();
    // Six beats each: the shorter, the less of a busy machine's pauses it outlasts.
    let lease = Duration::from_secs(6);
    let beats = Arc::clone(&store);
    let report = user.block_on(async {
        let worker = Worker::builder(&client)
            .queue(QUEUE, 2)
            .handle::<Double>(move |job: Double, _| {
                let beats = Arc::clone(&beats);
                async move {
                    // It never yields.
                    let enough = beats.count("beat") + 3;
                    while beats.count("beat") < enough {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Ok(job.value)
                }
            })
            .lease(lease)
            .build()
            .unwrap()
            .start();
        let handle = client.enqueue(&Double { value: 1 }).await.unwrap();
        assert_eq!(handle.wait_timeout(DEADLINE).await.unwrap(), 1);
        worker.stop();
        worker.join().await.unwrap()
    });
    assert_eq!((report.succeeded, report.stale, store.count("register")), (1, 0, 1));
    engine.shutdown_background();
}

#[test]
fn a_worker_ends_when_the_runtime_of_its_handlers_is_gone() {
    let engine = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let user = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (_, client) = Probe::new().on(engine.handle().clone()).shared();
    let worker = {
        let _inside = user.enter();
        Worker::builder(&client).queue(QUEUE, 1).handle::<Double>(never).build().unwrap().start()
    };
    engine.block_on(async {
        let handle = client.enqueue(&Double { value: 1 }).await.unwrap();
        until_status(&client, handle.id(), Status::Running).await;
        user.shutdown_background();
        let report = tokio::time::timeout(DEADLINE, worker.join()).await.unwrap().unwrap();
        assert_eq!(report.released, 1);
        assert_eq!(job(&client, handle.id()).await.status, Status::Pending);
    });
}

#[tokio::test]
async fn a_job_that_does_not_exist_is_not_waited_for() {
    let client = testing::client();
    let error = client.handle::<Double>(JobId::new()).wait().await.unwrap_err();
    assert!(matches!(error, taskq_core::client::WaitError::Absent(_)));
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_returns_when_its_lease_is_nearly_over_still_counts() {
    let (store, client) = Probe::simulated().shared();
    let (_, other) = store.beside().shared();
    let worker = Worker::builder(&client)
        .queue(QUEUE, 1)
        .handle::<Double>(async |job: Double, ctx: Context| {
            ctx.cancelled().cancelled().await;
            assert_eq!(ctx.stop_reason(), Some(StopReason::LeaseLost));
            Ok(job.value)
        })
        .build()
        .unwrap()
        .start();
    let handle = other.enqueue(&Double { value: 10 }).await.unwrap();
    until_status(&other, handle.id(), Status::Running).await;
    store.act(|call| matches!(call, Call::Beat(_) | Call::Claim).then_some(Act::Hang));
    assert_eq!(handle.wait_timeout(Duration::from_mins(1)).await.unwrap(), 10);
    store.heal();
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.succeeded, report.stale, report.unsettled), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_settles_that_slept_past_its_lease_is_stale_and_counted() {
    let (store, client) = Probe::simulated().shared();
    let (_, other) = store.beside().shared();
    let gate = Arc::new(Semaphore::new(0));
    let build = |client, gate: Arc<Semaphore>| {
        let handler = move |_: Double, ctx: Context| {
            let gate = Arc::clone(&gate);
            async move {
                gate.acquire().await?.forget();
                Ok(ctx.epoch().0)
            }
        };
        Worker::builder(client).queue(QUEUE, 1).handle::<Double>(handler).build().unwrap().start()
    };
    let slept = build(&client, Arc::clone(&gate));
    let handle = other.enqueue(&Double { value: 1 }).await.unwrap();
    until_status(&other, handle.id(), Status::Running).await;
    // To the worker it is as if no time had passed.
    store.skip(Duration::from_mins(1));
    gate.add_permits(1);
    until("its late outcome is answered", async || slept.counts().stale == 1).await;
    assert_eq!(job(&other, handle.id()).await.status, Status::Running, "it changed nothing");
    let awake = build(&other, Arc::clone(&gate));
    gate.add_permits(1);
    assert_eq!(handle.wait_timeout(Duration::from_mins(1)).await.unwrap(), 2, "the second attempt's");
    slept.stop();
    let report = slept.join().await.unwrap();
    awake.stop();
    let succeeded = report.succeeded + awake.join().await.unwrap().succeeded;
    assert_eq!((succeeded, report.stale), (1, 1));
}
