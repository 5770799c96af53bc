//! Replies that never come, although what they tell has happened.

use std::time::Duration;

use taskq::prelude::*;
use taskq::{EnqueueOutcome, JobId, OutcomeKind, Status, WorkerId};
use taskq_core::model::{
    ActorName, IdempotencyKey, Json, NewJob, Outcome, QueueName, SettleReason, Settlement,
};
use taskq_core::store::{Beat, ClaimRequest, LeaderEpoch, QueueSlots, Registration, StoreError};
use taskq_testkit::{Proxy, Swallow, TestDatabase};

use super::{Echo, WITHIN, echo, past};
use crate::manual::database;

/// Six beats each: the shorter, the less of a busy machine's pauses it outlasts.
const LEASE: Duration = Duration::from_secs(9);

/// A client behind a proxy, and one with a direct way to the same database.
struct Scene {
    database: TestDatabase,
    proxy: Proxy,
    proxied: TaskQ,
    direct: TaskQ,
}

impl Scene {
    async fn new() -> Self {
        let database = database().await;
        let proxy = Proxy::start(database.dsn()).unwrap();
        let proxied = TaskQ::connect(proxy.dsn()).await.unwrap();
        let direct = TaskQ::connect(database.dsn()).await.unwrap();
        Self { database, proxy, proxied, direct }
    }

    fn worker(&self) -> taskq::WorkerHandle {
        let builder = Worker::builder(&self.proxied).queue("default", 50).handle::<Echo>(echo);
        builder.lease(LEASE).build().unwrap().start()
    }

    async fn jobs(&self) -> i64 {
        let client = self.database.connect().await.unwrap();
        client.query_one("SELECT count(*) FROM taskq.jobs", &[]).await.unwrap().get(0)
    }
}

async fn happens(swallow: &Swallow) {
    tokio::time::timeout(WITHIN, swallow.swallowed()).await.expect("the reply is swallowed");
}

fn new_job() -> NewJob {
    let (queue, actor) = (QueueName::new("default").unwrap(), ActorName::new("echo").unwrap());
    NewJob::new(queue, actor, Json::from_value(&Echo, 100).unwrap())
}

#[tokio::test]
async fn jobs_of_a_claim_whose_reply_is_swallowed_go_back_within_a_few_beats_and_run() {
    let scene = Scene::new().await;
    let jobs: Vec<_> = (0..10).map(|_| Echo).collect();
    let handles = scene.direct.enqueue_many::<Echo>(&jobs).await.unwrap();
    let swallow = scene.proxy.swallow_reply(".claim_slots(");
    let worker = scene.worker();
    happens(&swallow).await;

    for handle in &handles {
        assert_eq!(handle.wait_timeout(WITHIN).await.unwrap(), 2, "by its second epoch");
    }
    for handle in &handles {
        assert_eq!(past(&scene.direct, handle.id()).await, [(OutcomeKind::Released, 1, 1)]);
        assert_eq!(scene.direct.store().job(handle.id()).await.unwrap().unwrap().attempt, 1);
    }
    assert_eq!(scene.direct.workers().await.unwrap().len(), 1, "no session was lost");
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.succeeded, report.released, report.stale, report.unsettled), (10, 10, 0, 0));
}

#[tokio::test]
async fn a_settle_whose_acknowledgement_is_swallowed_counts_once_and_never_as_stale() {
    let scene = Scene::new().await;
    let swallow = scene.proxy.swallow_reply(".settle_batch(");
    let worker = scene.worker();
    let handle = scene.direct.enqueue(&Echo).await.unwrap();
    happens(&swallow).await;
    // Committed before the reply was swallowed.
    assert_eq!(handle.status().await.unwrap(), Status::Succeeded);
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.succeeded, report.stale, report.unsettled, report.exit_code()), (1, 0, 0, 0));
    let record = scene.direct.store().job(handle.id()).await.unwrap().unwrap();
    assert_eq!((record.epoch.0, record.attempt), (1, 1));
    assert_eq!(past(&scene.direct, handle.id()).await, []);
}

#[tokio::test]
async fn calls_whose_replies_are_swallowed_can_be_repeated() {
    let scene = Scene::new().await;
    let store = scene.proxied.store();
    let lost = |result: Result<(), StoreError>| {
        assert!(matches!(result, Err(StoreError::Unavailable { .. })), "{result:?}");
    };

    let mut job = new_job();
    job.idempotency_key = Some(IdempotencyKey::new("once").unwrap());
    let swallow = scene.proxy.swallow_reply(".enqueue_keyed(");
    lost(store.enqueue(vec![job.clone()]).await.map(drop));
    happens(&swallow).await;
    // The same call, and the call of a program that has lost the id with the reply.
    for id in [job.id, JobId::new()] {
        let again = store.enqueue(vec![NewJob { id, ..job.clone() }]).await.unwrap()[0];
        assert_eq!(
            (again.id, again.outcome, again.status),
            (job.id, EnqueueOutcome::Existing, Some(Status::Pending))
        );
    }
    assert_eq!(scene.jobs().await, 1);

    let worker = WorkerId::new();
    let registration = Registration {
        worker,
        queues: vec![job.queue.clone()],
        actors: vec![job.actor.clone()],
        lease: LEASE,
        info: None,
    };
    store.register_worker(registration).await.unwrap();
    let queues = vec![QueueSlots { queue: job.queue.clone(), slots: 1, turn: None }];
    let request = ClaimRequest { worker, queues, lease: LEASE, oversample: 2 };
    let claimed = store.claim(request).await.unwrap().jobs;
    assert_eq!(claimed.len(), 1);

    let swallow = scene.proxy.swallow_reply(".heartbeat(");
    let beat = Beat { worker, lease: LEASE, progress: Vec::new(), leadership: Some(Duration::from_secs(15)) };
    lost(store.heartbeat(beat.clone()).await.map(drop));
    happens(&swallow).await;
    let leader = scene.direct.leader().await.unwrap().expect("the lost beat has taken the leadership");
    let again = store.heartbeat(beat).await.unwrap();
    assert_eq!(again.leadership, Some(LeaderEpoch(leader.epoch)), "renewed, not taken anew");

    let swallow = scene.proxy.swallow_reply(".settle_batch(");
    let outcome = Outcome::Succeeded { result: None };
    let settlement = Settlement { id: job.id, epoch: claimed[0].epoch, outcome };
    lost(store.settle(worker, vec![settlement.clone()]).await.map(drop));
    happens(&swallow).await;
    let again = store.settle(worker, vec![settlement]).await.unwrap()[0];
    assert_eq!((again.reason, again.status), (SettleReason::Repeated, Some(Status::Succeeded)));
}

#[tokio::test]
async fn a_client_repeats_a_keyed_enqueue_whose_reply_is_swallowed_by_itself() {
    let scene = Scene::new().await;
    let swallow = scene.proxy.swallow_reply(".enqueue_keyed(");
    let handle = scene.proxied.enqueue(&Echo).idempotency_key("once").await.unwrap();
    happens(&swallow).await;
    assert_eq!(handle.outcome(), Some(EnqueueOutcome::Created));
    assert_eq!(handle.status().await.unwrap(), Status::Pending);
    assert_eq!(scene.jobs().await, 1);
}

#[tokio::test]
async fn a_beat_whose_reply_is_swallowed_costs_no_session() {
    let scene = Scene::new().await;
    let worker = scene.worker();
    // A job each before and after, so that the session is there and still works.
    for _ in 0..2 {
        let handle = scene.direct.enqueue(&Echo).await.unwrap();
        assert_eq!(handle.wait_timeout(WITHIN).await.unwrap(), 1);
        let swallow = scene.proxy.swallow_reply(".heartbeat(");
        happens(&swallow).await;
    }
    let beaten = scene.direct.workers().await.unwrap()[0].lease_expires_at;
    taskq_testkit::wait_until("the next beat", WITHIN, async || {
        scene.direct.workers().await.unwrap()[0].lease_expires_at > beaten
    })
    .await;
    assert_eq!(scene.direct.workers().await.unwrap().len(), 1, "no session was lost");
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.succeeded, report.stale, report.unsettled), (2, 0, 0));
}
