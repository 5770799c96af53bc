//! What is particular to memory; `taskq-contract` holds what every store does.

use std::time::Duration;

use super::*;
use crate::model::{
    ActorName, Epoch, ErrorRecord, Json, Outcome, QueueName, RetryPolicy, Schedule, SettleReason, Status,
};
use crate::store::{QueueSlots, WorkerState};

const LEASE: Duration = Duration::from_mins(1);

fn start() -> Timestamp {
    "2026-01-02T03:04:05.123456789Z".parse().unwrap()
}

fn job(queue: &str) -> NewJob {
    let payload = Json::from_text("{}".to_owned(), 2).unwrap();
    NewJob::new(QueueName::new(queue).unwrap(), ActorName::new("a").unwrap(), payload)
}

async fn worker(store: &MemoryStore) -> WorkerId {
    let worker = WorkerId::new();
    let (queues, actors) = (vec![QueueName::new("q").unwrap()], vec![ActorName::new("a").unwrap()]);
    store.register_worker(Registration { worker, queues, actors, lease: LEASE, info: None }).await.unwrap();
    worker
}

async fn claim(store: &MemoryStore, worker: WorkerId) -> JobId {
    let queues = vec![QueueSlots { queue: QueueName::new("q").unwrap(), slots: 1, turn: None }];
    let request = ClaimRequest { worker, queues, lease: LEASE, oversample: 2 };
    store.claim(request).await.unwrap().jobs[0].id
}

#[tokio::test]
async fn times_and_durations_are_cut_to_microseconds() {
    let store = MemoryStore::new(TestClock::new(start()));
    let job = NewJob {
        schedule: Schedule::At(start() + Duration::from_nanos(1_999)),
        start_to_close: Some(Duration::from_nanos(1_999)),
        ..job("q")
    };
    store.enqueue(vec![job.clone()]).await.unwrap();
    let stored = store.job(job.id).await.unwrap().unwrap();
    assert_eq!(stored.created_at.to_string(), "2026-01-02T03:04:05.123456Z");
    assert_eq!(stored.scheduled_at.to_string(), "2026-01-02T03:04:05.123458Z");
    assert_eq!(stored.start_to_close, Some(Duration::from_micros(1)));
}

#[tokio::test]
async fn a_seed_repeats_the_jitter() {
    let mut retries = Vec::new();
    for seed in [1, 1, 2] {
        let store = MemoryStore::with_seed(TestClock::new(start()), seed);
        let policy = RetryPolicy { jitter: 1.0, ..RetryPolicy::default() };
        store.enqueue(vec![NewJob { retry_policy: Some(policy), ..job("q") }]).await.unwrap();
        let worker = worker(&store).await;
        let id = claim(&store, worker).await;
        let error = ErrorRecord::new("error", "it broke");
        let outcome = Outcome::Failed { error, delay: None, is_final: false };
        store.settle(worker, vec![Settlement { id, epoch: Epoch(1), outcome }]).await.unwrap();
        retries.push(store.job(id).await.unwrap().unwrap().scheduled_at);
    }
    assert_eq!(retries[0], retries[1]);
    assert_ne!(retries[0], retries[2]);
}

#[tokio::test]
async fn a_released_job_is_ready_even_if_the_clock_stepped_back() {
    let clock = TestClock::new(start());
    let store = MemoryStore::new(clock.clone());
    store.enqueue(vec![job("q")]).await.unwrap();
    let worker = worker(&store).await;
    let id = claim(&store, worker).await;
    clock.set(start() - Duration::from_hours(1));
    store.release_worker(worker).await.unwrap();
    assert_eq!(store.job(id).await.unwrap().unwrap().status, Status::Pending);
    assert_eq!(store.queues().await.unwrap()[0].oldest_pending, Some(Duration::ZERO));
}

#[tokio::test]
async fn a_lost_worker_stays_lost_even_if_the_clock_stepped_back() {
    let clock = TestClock::new(start());
    let store = MemoryStore::new(clock.clone());
    store.enqueue(vec![job("q")]).await.unwrap();
    let lost = worker(&store).await;
    let id = claim(&store, lost).await;
    clock.advance(LEASE);
    let leader = worker(&store).await;
    let beat = |worker| Beat { worker, lease: LEASE, progress: Vec::new(), leadership: Some(LEASE) };
    let epoch = store.heartbeat(beat(leader)).await.unwrap().leadership.unwrap();
    assert_eq!(store.sweep(Sweep::MarkLost, SweepCall::new(leader, epoch, 10)).await.unwrap().rows, 1);
    clock.set(start());
    assert!(matches!(store.heartbeat(beat(lost)).await, Err(StoreError::LeaseLost { .. })));
    let settlement = Settlement { id, epoch: Epoch(1), outcome: Outcome::Succeeded { result: None } };
    assert_eq!(store.settle(lost, vec![settlement]).await.unwrap()[0].reason, SettleReason::Stale);
    assert_eq!(store.workers().await.unwrap()[0].state, WorkerState::Lost);
    assert_eq!(
        store.reclaim(SweepCall::new(leader, epoch, 10), ReclaimOptions::default()).await.unwrap().jobs.len(),
        1
    );
}

#[tokio::test]
async fn a_call_leaves_each_hint_once_and_none_for_what_exists() {
    let store = MemoryStore::new(TestClock::new(start()));
    let mut wakes = store.wakes();
    let later = NewJob { schedule: Schedule::After(LEASE), ..job("c") };
    let ready = job("b");
    store.enqueue(vec![later.clone(), ready.clone(), job("a"), job("b"), later.clone()]).await.unwrap();
    store.enqueue(vec![ready, later]).await.unwrap();
    drop(store);
    let mut seen = Vec::new();
    while let Some(wake) = wakes.next().await {
        seen.push(wake);
    }
    let queue = |name| Wake::Ready(QueueName::new(name).unwrap());
    assert_eq!(seen, [queue("a"), queue("b"), Wake::Due]);
}

#[tokio::test]
async fn a_subscriber_that_falls_behind_looks_at_everything() {
    let store = MemoryStore::new(TestClock::new(start()));
    let mut wakes = store.wakes();
    for _ in 0..=WAKES_KEPT {
        store.enqueue(vec![job("q")]).await.unwrap();
    }
    assert_eq!(wakes.next().await, Some(Wake::Everything));
}
