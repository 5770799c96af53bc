//! Cancellation in its steps, and timeouts that stop the body.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use taskq_core::client::{Client, WaitError};
use taskq_core::model::{JobRecord, Status};
use taskq_core::store::CancelOutcome;
use taskq_core::worker::{Context, JobError, JobResult, StopReason, Worker, WorkerHandle};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::jobs::*;
use crate::probe::*;

const SECOND: Duration = Duration::from_secs(1);

fn start<F, R>(client: &Client, slots: u32, handler: F) -> WorkerHandle
where
    F: Fn(Double, Context) -> R + Send + Sync + 'static,
    R: Future<Output = JobResult<i64>> + Send + 'static,
{
    Worker::builder(client).queue(QUEUE, slots).handle::<Double>(handler).build().unwrap().start()
}

async fn cancel(client: &Client, job: &JobRecord) {
    let answers = client.store().cancel(vec![job.id], Some("not wanted".to_owned())).await.unwrap();
    assert_eq!(answers[0].outcome, CancelOutcome::Requested);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_asked_may_end_by_itself() {
    let (_, client) = Probe::simulated().shared();
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&reasons);
    let worker = start(&client, 4, move |job, ctx| {
        let seen = Arc::clone(&seen);
        async move {
            assert_eq!((ctx.is_cancelled(), ctx.stop_reason()), (false, None));
            ctx.cancelled().cancelled().await;
            seen.lock().unwrap().push(ctx.stop_reason());
            match job.value {
                0 => Ok(7),
                1 => Err("interrupted".into()),
                _ => Err(JobError::snooze(SECOND)),
            }
        }
    });
    let handles = client.enqueue_many::<Double>((0..3).map(|value| Double { value })).await.unwrap();
    let begun = Instant::now();
    for handle in &handles {
        let running = until_status(&client, handle.id(), Status::Running).await;
        cancel(&client, &running).await;
    }
    assert_eq!(handles[0].wait_timeout(SECOND).await.unwrap(), 7, "what it returns in time counts");
    for (handle, class) in handles[1..].iter().zip([Some("error"), None]) {
        let error = handle.wait_timeout(SECOND).await.unwrap_err();
        let WaitError::Cancelled { error } = error else { panic!("{error:?}") };
        assert_eq!(error.map(|error| error.class).as_deref().filter(|class| *class == "error"), class);
    }
    assert!(begun.elapsed() < SECOND, "it is told at once: {:?}", begun.elapsed());
    assert_eq!(*reasons.lock().unwrap(), [Some(StopReason::CancelRequested); 3]);
    worker.stop();
    worker.join().await.unwrap();
}

/// Says when the handler's future is dropped, and spawns cleanup that takes its time.
struct Body {
    ctx: Context,
    dropped: Arc<Mutex<Option<Instant>>>,
    cleaned: Arc<AtomicUsize>,
}

impl Drop for Body {
    fn drop(&mut self) {
        *self.dropped.lock().unwrap() = Some(Instant::now());
        let cleaned = Arc::clone(&self.cleaned);
        self.ctx.cleanup().spawn(async move {
            tokio::time::sleep(SECOND * 2).await;
            cleaned.fetch_add(1, Ordering::SeqCst);
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_does_not_heed_is_dropped_and_its_cleanup_awaited() {
    let (_, client) = Probe::simulated().shared();
    let (dropped, cleaned) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
    let (drops, cleans) = (Arc::clone(&dropped), Arc::clone(&cleaned));
    let worker = start(&client, 1, move |_, ctx| {
        let body = Body { ctx, dropped: Arc::clone(&drops), cleaned: Arc::clone(&cleans) };
        async move {
            let _body = body;
            std::future::pending().await
        }
    });
    let handle = client.enqueue(&Double { value: 1 }).await.unwrap();
    let running = until_status(&client, handle.id(), Status::Running).await;
    let asked = Instant::now();
    cancel(&client, &running).await;
    let error = handle.wait_timeout(SECOND * 60).await.unwrap_err();
    let WaitError::Cancelled { error: Some(error) } = error else { panic!("{error:?}") };
    assert_eq!(error.class, "cancelled");
    let after = dropped.lock().unwrap().expect("the body is dropped") - asked;
    assert!((SECOND * 30..SECOND * 31).contains(&after), "{after:?}");
    assert_eq!(cleaned.load(Ordering::SeqCst), 1, "settled only after the cleanup");
    worker.stop();
    assert_eq!(worker.join().await.unwrap().cancelled, 1);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_never_ends_is_abandoned_and_keeps_its_slot() {
    let (_, client) = Probe::simulated().shared();
    let gate = Arc::new(Semaphore::new(0));
    let pass = Arc::clone(&gate);
    let worker = start(&client, 1, move |job, ctx: Context| {
        let pass = Arc::clone(&pass);
        async move {
            if job.value == 1 {
                ctx.cleanup().spawn(async move { pass.acquire().await.unwrap().forget() });
                std::future::pending::<()>().await;
            }
            Ok(job.value)
        }
    });
    let handle = client.enqueue(&Double { value: 1 }).await.unwrap();
    let running = until_status(&client, handle.id(), Status::Running).await;
    let asked = Instant::now();
    cancel(&client, &running).await;
    let error = handle.wait_timeout(SECOND * 60).await.unwrap_err();
    let WaitError::Abandoned { error: Some(error) } = error else { panic!("{error:?}") };
    assert_eq!(error.class, "abandoned");
    assert!((SECOND * 40..SECOND * 41).contains(&asked.elapsed()), "{:?}", asked.elapsed());
    assert_eq!((worker.counts().stuck, worker.counts().abandoned), (1, 1));
    let next = client.enqueue(&Double { value: 2 }).await.unwrap();
    assert!(matches!(next.wait_timeout(SECOND * 10).await, Err(WaitError::Timeout)), "the slot is taken");
    gate.add_permits(1);
    assert_eq!(next.wait_timeout(SECOND * 10).await.unwrap(), 2);
    assert_eq!(worker.counts().stuck, 0);
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.abandoned, report.stuck, report.stale, report.exit_code()), (1, 0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_delivery_is_lost_is_repeated_with_the_next_beat() {
    let (store, client) = Probe::simulated().shared();
    let worker = start(&client, 1, async |_, ctx: Context| {
        ctx.cancelled().cancelled().await;
        Err("interrupted".into())
    });
    let handle = client.enqueue(&Double { value: 1 }).await.unwrap();
    let running = until_status(&client, handle.id(), Status::Running).await;
    let mut left = 1;
    store.act(move |call| {
        let lost = matches!(call, Call::Beat(_)) && left > 0;
        left -= u32::from(lost);
        lost.then_some(Act::Lose)
    });
    cancel(&client, &running).await;
    let error = handle.wait_timeout(SECOND * 6).await.unwrap_err();
    assert!(matches!(error, WaitError::Cancelled { .. }), "{error:?}");
    worker.stop();
    worker.join().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_timeout_goes_before_the_cooperative_grace_and_stays_a_cancellation() {
    let (_, client) = Probe::simulated().shared();
    let worker = start(&client, 1, async |_, _| std::future::pending().await);
    let handle = client.enqueue(&Double { value: 1 }).start_to_close(SECOND * 5).await.unwrap();
    let running = until_status(&client, handle.id(), Status::Running).await;
    let asked = Instant::now();
    cancel(&client, &running).await;
    let error = handle.wait_timeout(SECOND * 60).await.unwrap_err();
    assert!(matches!(error, WaitError::Cancelled { .. }), "{error:?}");
    assert!(asked.elapsed() < SECOND * 6);
    worker.stop();
    worker.join().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_job_whose_cleanup_never_ends_is_not_tried_again() {
    let (_, client) = Probe::simulated().shared();
    let worker = start(&client, 2, async |_, ctx: Context| {
        ctx.cleanup().spawn(std::future::pending::<()>());
        std::future::pending().await
    });
    let handle = client.enqueue(&Double { value: 1 }).start_to_close(SECOND).await.unwrap();
    let error = handle.wait_timeout(SECOND * 15).await.unwrap_err();
    let WaitError::Abandoned { error: Some(error) } = error else { panic!("{error:?}") };
    assert!(error.message.contains("longer than it may"), "{}", error.message);
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.abandoned, report.stuck, report.exit_code()), (1, 1, 1));
}

#[test]
fn a_handler_that_never_yields_is_abandoned_while_it_blocks() {
    let engine = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let user = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (_, client) = Probe::new().on(engine.handle().clone()).shared();
    let (begun, release) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (begins, released) = (Arc::clone(&begun), Arc::clone(&release));
    let worker = {
        let _inside = user.enter();
        Worker::builder(&client)
            .queue(QUEUE, 1)
            .handle::<Double>(move |job: Double, _| {
                let (begins, released) = (Arc::clone(&begins), Arc::clone(&released));
                async move {
                    begins.store(true, Ordering::SeqCst);
                    while !released.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                    Ok(job.value)
                }
            })
            .cancel_grace(Duration::from_millis(50))
            .forced_grace(Duration::from_millis(50))
            .build()
            .unwrap()
            .start()
    };
    engine.block_on(async {
        let handle = client.enqueue(&Double { value: 1 }).await.unwrap();
        // One whose first poll has not come yet can be stopped.
        until("it blocks", async || begun.load(Ordering::SeqCst)).await;
        cancel(&client, &job(&client, handle.id()).await).await;
        let abandoned = until_status(&client, handle.id(), Status::Abandoned).await;
        assert_eq!(abandoned.error.unwrap().class, "abandoned");
        assert_eq!(worker.counts().stuck, 1);
        release.store(true, Ordering::SeqCst);
        until("the slot is free", async || worker.counts().stuck == 0).await;
        worker.stop();
        let report = worker.join().await.unwrap();
        assert_eq!((report.abandoned, report.succeeded, report.stale), (1, 0, 0));
    });
    user.shutdown_background();
    engine.shutdown_background();
}
