//! What becomes of a job, by what its handler does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use taskq_core::client::{Client, Job, WaitError};
use taskq_core::model::{ActorName, Json, NewJob, PAYLOAD_LIMIT, QueueName, RetryPolicy, Status};
use taskq_core::testing;
use taskq_core::worker::{Context, JobError, JobResult, Worker, WorkerHandle, install_panic_hook};

use crate::jobs::*;

fn start<F, R>(client: &Client, handler: F) -> WorkerHandle
where
    F: Fn(Double, Context) -> R + Send + Sync + 'static,
    R: Future<Output = JobResult<i64>> + Send + 'static,
{
    Worker::builder(client).queue(QUEUE, 4).handle::<Double>(handler).build().unwrap().start()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_runs_and_its_output_comes_back() {
    let client = testing::client();
    let handle = client.enqueue(&Double { value: 21 }).tag("x").priority(3).await.unwrap();
    let worker = start(&client, async |job, ctx: Context| {
        assert_eq!((ctx.attempt(), ctx.max_attempts(), ctx.priority()), (1, 3, 3));
        assert_eq!((ctx.tags(), ctx.actor().as_str()), (&["x".to_owned()][..], "double"));
        Ok(job.value * 2)
    });
    assert_eq!(handle.wait_timeout(DEADLINE).await.unwrap(), 42);
    assert_eq!(handle.status().await.unwrap(), Status::Succeeded);
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.succeeded, report.failed, report.stuck), (1, 0, 0));
}

#[tokio::test]
async fn errors_are_tried_again_with_their_sources_until_attempts_are_spent() {
    let client = testing::client();
    let policy = RetryPolicy::fixed(Duration::from_millis(1));
    let handle = client.enqueue(&Double { value: 1 }).retry(policy).await.unwrap();
    let tries = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&tries);
    let worker = start(&client, move |_, _| {
        seen.fetch_add(1, Ordering::Relaxed);
        async { Err(std::io::Error::other("disk full"))? }
    });
    let error = handle.wait_timeout(DEADLINE).await.unwrap_err();
    let WaitError::Failed { error: Some(record) } = error else { panic!("{error:?}") };
    assert_eq!((record.class.as_str(), record.message.as_str()), ("error", "disk full"));
    assert_eq!(tries.load(Ordering::Relaxed), 3);
    assert_eq!(client.store().attempts(handle.id()).await.unwrap().len(), 2);
    worker.stop();
    assert_eq!(worker.join().await.unwrap().failed, 3);
}

#[tokio::test]
async fn a_handler_may_fail_snooze_postpone_and_cancel() {
    let client = testing::client();
    let worker = start(&client, async |job, ctx: Context| match (job.value, ctx.epoch().0) {
        (1, _) => Err(JobError::fail("broken for good")),
        (2, 1) => Err(JobError::snooze(Duration::from_millis(1))),
        (3, 1) => Err(JobError::retry_after(Duration::from_millis(1), "slow down")),
        (4, _) => Err(JobError::cancel("not wanted").with_class("unwanted")),
        (value, _) => {
            assert_eq!(ctx.attempt(), 1, "neither burns an attempt");
            Ok(value)
        }
    });
    let mut handles = client.enqueue_many::<Double>((1..5).map(|value| Double { value })).await.unwrap();
    let cancelled = handles.pop().unwrap().wait_timeout(DEADLINE).await.unwrap_err();
    assert!(matches!(cancelled, WaitError::Cancelled { error: Some(error) } if error.class == "unwanted"));
    assert_eq!(handles.pop().unwrap().wait_timeout(DEADLINE).await.unwrap(), 3);
    assert_eq!(handles.pop().unwrap().wait_timeout(DEADLINE).await.unwrap(), 2);
    let failed = handles.pop().unwrap();
    assert!(failed.wait_timeout(DEADLINE).await.is_err());
    assert_eq!(job(&client, failed.id()).await.attempt, 1);
    worker.stop();
    worker.join().await.unwrap();
}

#[tokio::test]
async fn a_panic_is_an_attempt_that_failed_and_its_backtrace_is_kept() {
    install_panic_hook();
    let client = testing::client();
    let handle = client.enqueue(&Double { value: 7 }).max_attempts(1).await.unwrap();
    let worker = start(&client, async |job, _| {
        tokio::task::yield_now().await;
        panic!("cannot double {}", job.value)
    });
    let error = handle.wait_timeout(DEADLINE).await.unwrap_err();
    let WaitError::Failed { error: Some(record) } = error else { panic!("{error:?}") };
    assert_eq!((record.class.as_str(), record.message.as_str()), ("panic", "cannot double 7"));
    assert!(record.backtrace.unwrap().contains("outcomes.rs"));
    let next = client.enqueue(&Double { value: 8 }).await.unwrap();
    assert_eq!(until_status(&client, next.id(), Status::Scheduled).await.attempt, 1, "the worker lives");
    worker.stop();
    worker.join().await.unwrap();
}

/// Counts that a future has been dropped, and spawns work that must end before the attempt does.
struct Child {
    ctx: Context,
    reaped: Arc<AtomicUsize>,
}

impl Drop for Child {
    fn drop(&mut self) {
        assert!(self.ctx.cancelled().is_cancelled(), "what it started knows already");
        let reaped = Arc::clone(&self.reaped);
        self.ctx.cleanup().spawn(async move {
            tokio::time::sleep(Duration::from_millis(30)).await;
            reaped.fetch_add(1, Ordering::SeqCst);
        });
    }
}

#[tokio::test]
async fn a_timeout_really_stops_the_body_and_awaits_its_cleanup() {
    let client = testing::client();
    let bound = Duration::from_millis(20);
    let handle = client.enqueue(&Double { value: 1 }).max_attempts(1).start_to_close(bound).await.unwrap();
    let reaped = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&reaped);
    let worker = start(&client, move |_, ctx| {
        let child = Child { ctx, reaped: Arc::clone(&counter) };
        async move {
            assert!(child.ctx.deadline().is_some());
            std::future::pending().await
        }
    });
    let error = handle.wait_timeout(DEADLINE).await.unwrap_err();
    let WaitError::Failed { error: Some(record) } = error else { panic!("{error:?}") };
    assert_eq!(
        (record.class.as_str(), record.message.as_str()),
        ("timeout", "the attempt took longer than 20ms")
    );
    assert_eq!(reaped.load(Ordering::SeqCst), 1, "settled only after the cleanup");
    worker.stop();
    worker.join().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_decoded_or_recorded_is_a_typed_failure() {
    let client = testing::client();
    let worker = Worker::builder(&client)
        .queue(QUEUE, 4)
        .handle::<Double>(async |_: Double, _| Ok(f64::NAN.to_bits().cast_signed()))
        .actor("raw", async |payload: Json, _| {
            let size: usize = payload.parse()?;
            Ok(Some(Json::from_value(&"x".repeat(size), usize::MAX)?))
        })
        .actor("huge", async |_: Json, _| Err::<Option<Json>, _>("\0".repeat(50_000_000).into()))
        .build()
        .unwrap()
        .start();
    let new = |actor: &str, payload: &str, version| NewJob {
        payload_version: version,
        ..NewJob::new(
            QueueName::new(QUEUE).unwrap(),
            ActorName::new(actor.to_owned()).unwrap(),
            Json::from_text(payload.to_owned(), PAYLOAD_LIMIT).unwrap(),
        )
    };
    let jobs = vec![
        new("double", r#"{"value": "seven"}"#, 1),
        new("double", r#"{"value": 7}"#, 2),
        new("raw", "2000000", 1),
        new("huge", "{}", 1),
    ];
    let ids: Vec<_> = client.enqueue_raw(jobs).await.unwrap().iter().map(|enqueued| enqueued.id).collect();

    let undecodable = until_status(&client, ids[0], Status::Failed).await;
    assert_eq!(undecodable.error.unwrap().class, "undecodable_payload");
    assert_eq!(undecodable.payload.as_str(), r#"{"value": "seven"}"#, "its bytes are kept");
    let unknown = until_status(&client, ids[1], Status::Scheduled).await;
    assert_eq!(unknown.error.unwrap().class, "unknown_payload_version");
    let invalid = until_status(&client, ids[2], Status::Failed).await;
    assert_eq!((invalid.attempt, invalid.error.unwrap().class.as_str()), (1, "invalid_output"));
    let huge = until_status(&client, ids[3], Status::Scheduled).await.error.unwrap();
    assert!(huge.message.len() <= 64 * 1024 && !huge.message.contains('\0'));
    worker.stop();
    worker.join().await.unwrap();
}

#[tokio::test]
async fn a_handler_is_tested_without_a_store() {
    struct Halves;
    impl taskq_core::worker::Handler<Double> for Halves {
        async fn run(&self, job: Double, ctx: Context) -> JobResult<i64> {
            if ctx.attempt() < 2 {
                ctx.client().enqueue(&Note { text: "early".to_owned() }).await?;
                return Err("too early".into());
            }
            Ok(job.value / 2)
        }
    }
    assert_eq!(testing::run_attempt(Halves, Double { value: 8 }, 2).await.unwrap(), 4);
    let error = testing::run(Halves, Double { value: 8 }).await.unwrap_err();
    assert_eq!(error.record().unwrap().message, "too early");
}

#[tokio::test]
async fn a_drain_runs_what_jobs_enqueue_and_names_what_nobody_serves() {
    let client = testing::client();
    let worker = || {
        Worker::builder(&client)
            .queue(QUEUE, 4)
            .handle::<Double>(async |job: Double, ctx: Context| {
                if job.value > 0 {
                    ctx.client().enqueue(&Double { value: job.value - 1 }).await?;
                }
                Ok(job.value)
            })
            .build()
            .unwrap()
    };
    client.enqueue(&Double { value: 50 }).await.unwrap();
    assert_eq!(testing::drain(worker()).await.unwrap().succeeded, 51);

    client.enqueue(&Note { text: String::new() }).queue(QUEUE).await.unwrap();
    let error = testing::drain(worker()).await.unwrap_err();
    assert!(error.to_string().contains(Note::ACTOR), "{error}");
}
