//! The client: coalesced enqueues and shared waits.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskq_core::client::{EnqueueError, Job, JobHandle, WaitError};
use taskq_core::model::{
    EnqueueOutcome, JsonError, NewJob, Notify, OnFinished, QueueName, RetryPolicy, Schedule, Status,
};
use taskq_core::store::{StoreError, Wake};
use taskq_core::testing;

use crate::jobs::*;
use crate::probe::*;

#[tokio::test]
async fn enqueues_gather_only_while_one_is_in_flight() {
    let (store, client) = Probe::new().shared();
    store.close();
    let calls: Vec<_> = (0..100)
        .map(|value| {
            let client = client.clone();
            tokio::spawn(async move { client.enqueue(&Double { value }).await.unwrap().id() })
        })
        .collect();
    until("the first is in flight", async || store.count("enqueue") == 1).await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    store.open();
    let mut ids = BTreeSet::new();
    for call in calls {
        ids.insert(call.await.unwrap());
    }
    assert_eq!((ids.len(), store.count("enqueue")), (100, 2));
    client.enqueue(&Double { value: 0 }).await.unwrap();
    assert_eq!(store.count("enqueue"), 3, "the turn was handed back");
}

#[tokio::test]
async fn a_dropped_call_leaves_the_turn_to_those_who_wait() {
    let (store, client) = Probe::new().shared();
    store.close();
    let first = tokio::spawn(IntoFuture::into_future(client.enqueue(&Double { value: 1 })));
    until("the first is in flight", async || store.count("enqueue") == 1).await;
    let second = tokio::spawn(IntoFuture::into_future(client.enqueue(&Double { value: 2 })));
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    first.abort();
    store.open();
    let handle = tokio::time::timeout(DEADLINE, second).await.unwrap().unwrap().unwrap();
    assert_eq!(handle.status().await.unwrap(), Status::Pending);
}

#[tokio::test]
async fn an_error_in_a_shared_call_reaches_only_its_caller() {
    let (store, client) = Probe::new().shared();
    store.close();
    let call = |attempts| {
        tokio::spawn(IntoFuture::into_future(client.enqueue(&Double { value: 1 }).max_attempts(attempts)))
    };
    let calls = [call(1), call(2), call(0), call(3)];
    until("the first is in flight", async || store.count("enqueue") == 1).await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    store.open();
    for (index, call) in calls.into_iter().enumerate() {
        let result = call.await.unwrap();
        assert_eq!(result.is_err(), index == 2, "{index}: {result:?}");
        if let Err(error) = result {
            assert!(error.is_invalid_input());
            assert!(matches!(error, EnqueueError::Store(StoreError::Invalid { index: None, .. })));
        }
    }
}

#[tokio::test]
async fn a_call_without_an_answer_is_repeated_once() {
    let (store, client) = Probe::new().losing_answers().shared();
    let failures = std::sync::Arc::new(AtomicUsize::new(1));
    let left = std::sync::Arc::clone(&failures);
    store.fail(move |call| {
        let fails = matches!(call, Call::Enqueue)
            && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        fails.then(unavailable)
    });
    let handle = client.enqueue(&Double { value: 1 }).await.unwrap();
    assert_eq!(handle.status().await.unwrap(), Status::Pending);
    failures.store(2, Ordering::SeqCst);
    let error = client.enqueue(&Double { value: 1 }).await.unwrap_err();
    assert!(matches!(error, EnqueueError::Store(StoreError::Unavailable { .. })));
    assert!(!error.is_invalid_input());
}

#[derive(Serialize, Deserialize)]
struct Reading(f64);

impl Job for Reading {
    type Output = ();
    const ACTOR: &'static str = "reading";
}

#[derive(Serialize, Deserialize)]
struct Nameless;

impl Job for Nameless {
    type Output = ();
    const ACTOR: &'static str = "";
}

#[tokio::test]
async fn bad_input_is_a_typed_error_and_nothing_is_written() {
    let (store, client) = Probe::new().shared();
    let error = client.enqueue(&Reading(f64::NAN)).await.unwrap_err();
    assert!(matches!(error, EnqueueError::Payload(JsonError::NotFinite(_))));
    let error = client.enqueue(&Note { text: "x".repeat(1 << 20) }).await.unwrap_err();
    assert!(matches!(error, EnqueueError::Payload(JsonError::TooLarge { .. })));
    let error = client.enqueue(&Note { text: "\0".to_owned() }).await.unwrap_err();
    assert!(matches!(error, EnqueueError::Payload(JsonError::Nul)));
    assert!(matches!(client.enqueue(&Nameless).await.unwrap_err(), EnqueueError::Name(_)));
    let error = client.enqueue(&Reading(1.0)).queue("a\nb").queue("fine").await.unwrap_err();
    assert!(matches!(error, EnqueueError::Name(_)), "a later call does not mend it");
    let error = client.enqueue(&Reading(1.0)).metadata(&f32::INFINITY).await.unwrap_err();
    assert!(matches!(error, EnqueueError::Metadata(_)));
    let error = client.enqueue_many::<Reading>([&Reading(1.0), &Reading(f64::INFINITY)]).await.unwrap_err();
    assert!(matches!(error, EnqueueError::Element { index: 1, .. }));
    assert_eq!(store.count("enqueue"), 0);
    let error = client.enqueue(&Reading(1.0)).metadata(&[1]).await.unwrap_err();
    assert!(error.is_invalid_input(), "{error}");
    let error = client.enqueue(&Reading(1.0)).run_in(Duration::MAX).await.unwrap_err();
    assert!(error.is_invalid_input(), "{error}");
    assert!(client.store().queues().await.unwrap().is_empty());
}

#[tokio::test]
async fn the_builder_says_what_it_is_told() {
    let client = testing::client();
    let policy = RetryPolicy::fixed(Duration::from_secs(1));
    let job = client
        .enqueue(&Double { value: 1 })
        .queue("other")
        .run_in(Duration::from_secs(9))
        .priority(-3)
        .max_attempts(7)
        .start_to_close(Duration::from_secs(2))
        .deadline("9999-12-30T00:00:00Z".parse().unwrap())
        .retry(policy)
        .tag("a")
        .tag("b")
        .metadata(&serde_json::json!({"k": 1}))
        .into_new_job()
        .unwrap();
    assert_eq!((job.queue.as_str(), job.actor.as_str()), ("other", "double"));
    assert_eq!((job.priority, job.max_attempts, job.retry_policy), (-3, 7, Some(policy)));
    assert_eq!(job.schedule, Schedule::After(Duration::from_secs(9)));
    assert_eq!((job.tags.len(), job.metadata.unwrap().as_str()), (2, r#"{"k":1}"#));
}

#[tokio::test]
async fn many_jobs_are_said_the_same_or_each_its_own() {
    let client = testing::client();
    let doubles = || (0..3).map(|value| Double { value });
    let jobs =
        client.enqueue_many::<Double>(doubles()).queue("bulk").priority(4).tag("t").into_new_jobs().unwrap();
    let told = |job: &NewJob| (job.queue.as_str().to_owned(), job.priority, job.tags.clone());
    assert!(jobs.iter().all(|job| told(job) == ("bulk".to_owned(), 4, vec!["t".to_owned()])), "{jobs:?}");
    assert_eq!(jobs.len(), 3);

    let priority = |value| client.enqueue(&Double { value }).priority(value.try_into().unwrap());
    let handles = client.enqueue_all((0..3).map(priority)).await.unwrap();
    for (expected, handle) in (0..).zip(&handles) {
        assert_eq!(client.store().job(handle.id()).await.unwrap().unwrap().priority, expected);
    }

    let keyed = || client.enqueue(&Double { value: 1 }).idempotency_key("one");
    let error = client.enqueue_all([client.enqueue(&Double { value: 0 }), keyed()]).await.unwrap_err();
    assert!(error.is_invalid_input());
    let EnqueueError::Element { index: 1, error } = error else { panic!("{error:?}") };
    assert!(matches!(*error, EnqueueError::NotSaid) && error.to_string().contains("on_finished"), "{error}");
    let said = || keyed().on_finished(OnFinished::Return);
    let handles = client.enqueue_all([said(), said()]).await.unwrap();
    assert_eq!(handles[0].id(), handles[1].id());
    let outcomes: Vec<_> = handles.iter().filter_map(JobHandle::outcome).collect();
    assert_eq!(outcomes, [EnqueueOutcome::Created, EnqueueOutcome::Existing]);
}

#[tokio::test]
async fn a_quiet_enqueue_is_told_of_by_its_token() {
    let client = testing::client();
    let mut wakes = client.store().wakes();
    let loud = client.enqueue(&Double { value: 1 }).await.unwrap();
    assert_eq!(wakes.next().await, Some(Wake::Ready(QueueName::new(Double::QUEUE).unwrap())));
    assert!(loud.wake_token().is_empty());
    loud.wake_token().fire().await.unwrap();

    let quiet = client.enqueue(&Double { value: 2 }).notify(Notify::None).queue("quiet").await.unwrap();
    let later = client.enqueue(&Double { value: 3 }).notify(Notify::None).run_in(Duration::from_secs(9));
    let later = later.await.unwrap();
    client.enqueue(&Double { value: 4 }).queue("loud").await.unwrap();
    assert_eq!(wakes.next().await, Some(Wake::Ready(QueueName::new("loud").unwrap())), "and nothing before");
    later.wake_token().merge(quiet.wake_token()).fire().await.unwrap();
    assert_eq!(wakes.next().await, Some(Wake::Ready(QueueName::new("quiet").unwrap())));
    assert_eq!(wakes.next().await, Some(Wake::Due));
}

#[tokio::test(start_paused = true)]
async fn waits_share_one_poll_that_stops_with_the_last() {
    let (store, client) = Probe::simulated().shared();
    let handles = client.enqueue_many::<Double>((0..50).map(|value| Double { value })).await.unwrap();
    let waits: Vec<_> = handles
        .iter()
        .map(|handle| {
            let handle = handle.clone();
            tokio::spawn(async move { handle.wait_timeout(Duration::from_millis(400)).await })
        })
        .collect();
    for wait in waits {
        assert!(matches!(wait.await.unwrap(), Err(WaitError::Timeout)));
    }
    let polls = store.count("endings");
    assert!((5..100).contains(&polls), "{polls} polls for 50 waits of 400 ms");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let polls = store.count("endings");
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(store.count("endings"), polls, "the poll stops");
}

#[tokio::test]
async fn a_wait_outlasts_an_unavailable_store_and_reports_a_refusal() {
    let (store, client) = Probe::new().shared();
    let handle = client.enqueue(&Double { value: 1 }).await.unwrap();
    let mut left = 5;
    store.fail(move |call| {
        let fails = matches!(call, Call::Endings);
        left -= i32::from(fails);
        let refused = || StoreError::Database { sqlstate: "42501".to_owned(), message: "denied".to_owned() };
        fails.then(|| if left >= 0 { unavailable() } else { refused() })
    });
    let error = handle.wait_timeout(DEADLINE).await.unwrap_err();
    assert!(matches!(&error, WaitError::Store(error) if matches!(**error, StoreError::Database { .. })));
    assert_eq!(store.count("endings"), 6);
}
