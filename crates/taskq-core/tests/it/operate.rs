//! Idempotency keys, and what operators do.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use taskq_core::client::{Client, EnqueueError, Job, OperateError, WaitError};
use taskq_core::model::{ActorName, EnqueueOutcome, JobId, OnFinished, QueueName, Status, WorkerId};
use taskq_core::store::{
    CancelOutcome, ClaimRequest, JobFilter, JobMatch, QueueMode, QueueSlots, Registration, RetryOutcome,
    Store, WorkerState,
};
use taskq_core::testing;
use taskq_core::worker::{Context, JobError, Worker, WorkerHandle};

use crate::jobs::*;
use crate::probe::*;

const SECOND: Duration = Duration::from_secs(1);

fn start(client: &Client) -> WorkerHandle {
    let builder = Worker::builder(client).queue(QUEUE, 4);
    builder.handle::<Double>(async |job: Double, _| Ok(job.value)).build().unwrap().start()
}

#[tokio::test]
async fn a_key_that_is_taken_leads_to_its_job_and_never_silently_to_a_finished_one() {
    let client = testing::client();
    let enqueue = |value| client.enqueue(&Double { value }).idempotency_key("order-7");
    let first = enqueue(1).await.unwrap();
    assert_eq!(first.outcome(), Some(EnqueueOutcome::Created));
    let again = enqueue(2).await.unwrap();
    assert_eq!((again.id(), again.outcome()), (first.id(), Some(EnqueueOutcome::Existing)));

    let worker = start(&client);
    assert_eq!(again.wait_timeout(DEADLINE).await.unwrap(), 1);
    let error = enqueue(3).await.unwrap_err();
    assert!(matches!(
        error,
        EnqueueError::AlreadyFinished { id, status: Some(Status::Succeeded) } if id == first.id()
    ));
    assert!(error.to_string().contains("succeeded") && !error.is_invalid_input(), "{error}");
    let returned = enqueue(3).on_finished(OnFinished::Return).await.unwrap();
    assert_eq!((returned.id(), returned.outcome()), (first.id(), Some(EnqueueOutcome::Existing)));
    let replaced = enqueue(3).on_finished(OnFinished::RunAgain).await.unwrap();
    assert_eq!(replaced.outcome(), Some(EnqueueOutcome::Replaced));
    assert_eq!(replaced.wait_timeout(DEADLINE).await.unwrap(), 3);
    assert_eq!(client.handle::<Double>(JobId::new()).outcome(), None);
    worker.stop();
    worker.join().await.unwrap();

    let error = client.enqueue(&Double { value: 1 }).on_finished(OnFinished::Return).await.unwrap_err();
    assert!(matches!(error, EnqueueError::NoKey) && error.is_invalid_input());
    let error = client.enqueue(&Double { value: 1 }).idempotency_key("").await.unwrap_err();
    assert!(matches!(error, EnqueueError::Name(_)));
}

#[tokio::test]
async fn a_queue_is_set_in_batches_and_takes_fairness_keys_only_where_turns_are_taken() {
    let client = testing::client();
    let enqueue = |value| client.enqueue(&Double { value }).fairness_key("tenant");
    let refused = enqueue(1).await.unwrap_err();
    assert!(refused.is_invalid_input() && refused.to_string().contains("--mode round_robin"), "{refused}");
    let set = |mode| client.set_queue(QUEUE, mode);
    assert!(set(QueueMode::RoundRobin).await.unwrap().changed);
    let handle = enqueue(1).await.unwrap();
    assert_eq!(job(&client, handle.id()).await.fairness_key.unwrap().as_str(), "tenant");
    let error = client.enqueue(&Double { value: 1 }).fairness_key("").await.unwrap_err();
    assert!(matches!(error, EnqueueError::Name(_)));

    let new = (0..2_500).map(|value| enqueue(value).into_new_job().unwrap()).collect();
    client.enqueue_raw(new).await.unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let teller = Arc::clone(&told);
    let change =
        set(QueueMode::StrictFifo).on_progress(move |change| teller.lock().unwrap().push(change.merged));
    let change = change.await.unwrap();
    assert_eq!((change.changed, change.merged), (true, 2_501));
    assert_eq!(*told.lock().unwrap(), [1_000, 2_000, 2_501]);
    let error = client.set_queue("", QueueMode::StrictFifo).await.unwrap_err();
    assert!(matches!(error, OperateError::Name(_)));
}

#[tokio::test]
async fn a_keyed_enqueue_whose_answer_is_lost_is_not_taken_for_anothers() {
    let (store, client) = Probe::new().shared();
    let (_, workers) = store.beside().shared();
    let worker = start(&workers);
    let mut left = 1;
    store.act(move |call| {
        let lost = matches!(call, Call::Enqueue) && left > 0;
        left -= u32::from(lost);
        lost.then_some(Act::Lose)
    });
    let handle = client.enqueue(&Double { value: 4 }).idempotency_key("k").await.unwrap();
    assert_eq!(handle.outcome(), Some(EnqueueOutcome::Created));
    assert_eq!(handle.wait_timeout(DEADLINE).await.unwrap(), 4);
    assert_eq!(store.count("enqueue"), 2);
    worker.stop();
    worker.join().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_keyed_enqueue_goes_apart_and_waits_only_so_long() {
    let (store, client) = Probe::simulated().shared();
    store.close();
    let keyed = client.enqueue(&Double { value: 1 }).idempotency_key("k");
    let keyed = tokio::spawn(IntoFuture::into_future(keyed));
    until("it is in flight", async || store.count("enqueue") == 1).await;
    let plain = tokio::spawn(IntoFuture::into_future(client.enqueue(&Double { value: 2 })));
    until("another does not wait for it", async || store.count("enqueue") == 2).await;
    let error = keyed.await.unwrap().unwrap_err();
    assert!(matches!(&error, EnqueueError::Busy { key } if key.as_str() == "k"), "{error:?}");
    assert!(!plain.is_finished(), "an unkeyed one has no such bound");
    store.open();
    plain.await.unwrap().unwrap();
    assert!(!error.is_invalid_input());
}

#[tokio::test]
async fn jobs_are_cancelled_and_retried_by_id() {
    let client = testing::client();
    let handle = client.enqueue(&Double { value: 1 }).await.unwrap();
    let missing = JobId::new();
    let answers = client.cancel([handle.id(), missing], Some("too late".to_owned())).await.unwrap();
    let outcomes: Vec<_> = answers.iter().map(|answer| answer.outcome).collect();
    assert_eq!(outcomes, [CancelOutcome::Cancelled, CancelOutcome::NotFound]);
    assert_eq!(handle.cancel().await.unwrap(), CancelOutcome::Finished);
    let error = handle.wait_timeout(DEADLINE).await.unwrap_err();
    assert!(matches!(error, WaitError::Cancelled { error: Some(error) } if error.message == "too late"));

    let answers = client.retry([handle.id(), missing]).await.unwrap();
    let outcomes: Vec<_> = answers.iter().map(|answer| answer.outcome).collect();
    assert_eq!(outcomes, [RetryOutcome::Retried, RetryOutcome::NotFound]);
    let worker = start(&client);
    assert_eq!(handle.wait_timeout(DEADLINE).await.unwrap(), 1);
    worker.stop();
    worker.join().await.unwrap();
}

#[tokio::test]
async fn jobs_are_cancelled_and_retried_by_filter_in_batches() {
    let client = testing::client();
    client.enqueue_many::<Double>((0..2_500).map(|value| Double { value })).await.unwrap();
    let other = client.enqueue(&Note { text: "stays".to_owned() }).await.unwrap();
    let ours = || JobMatch { actor: Some("double".parse().unwrap()), ..JobMatch::default() };
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    let totals = client
        .cancel_matching(ours())
        .reason("wrong batch")
        .on_progress(move |totals| sees.lock().unwrap().push(totals.cancelled))
        .await
        .unwrap();
    assert_eq!((totals.cancelled, totals.requested), (2_500, 0));
    assert_eq!(seen.lock().unwrap()[..2], [1_000, 2_000]);
    assert_eq!(other.status().await.unwrap(), Status::Pending);
    assert_eq!(client.retry_matching(ours()).await.unwrap().retried, 2_500);
    assert_eq!(client.retry_matching(ours()).await.unwrap().retried, 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_paused_is_not_claimed_until_it_is_resumed() {
    let (_, client) = Probe::simulated().shared();
    let worker = start(&client);
    let (queue, actor) = (client.queue(QUEUE), client.actor("double"));
    for lane in [&*queue, &*actor] {
        assert!(lane.pause().await.unwrap());
        assert!(!lane.pause().await.unwrap());
        let handle = client.enqueue(&Double { value: 1 }).await.unwrap();
        assert!(matches!(handle.wait_timeout(SECOND * 30).await, Err(WaitError::Timeout)));
        assert!(lane.resume().await.unwrap());
        assert!(!lane.resume().await.unwrap());
        assert_eq!(handle.wait_timeout(SECOND).await.unwrap(), 1, "at once");
    }
    assert!(matches!(client.queue("").pause().await, Err(OperateError::Name(_))));
    worker.stop();
    worker.join().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn workers_and_the_leader_are_shown() {
    let (_, client) = Probe::simulated().shared();
    assert_eq!(client.leader().await.unwrap(), None);
    let worker = start(&client);
    until("it leads", async || client.leader().await.unwrap().is_some()).await;
    let workers = client.workers().await.unwrap();
    assert_eq!((workers.len(), workers[0].state), (1, WorkerState::Active));
    assert_eq!(client.leader().await.unwrap().unwrap().worker, workers[0].worker);
    worker.stop();
    worker.join().await.unwrap();
    assert_eq!(client.leader().await.unwrap(), None, "freed at the shutdown");
}

#[tokio::test]
async fn an_operators_retry_overrules_a_final_failure() {
    let client = testing::client();
    let worker = Worker::builder(&client)
        .queue(QUEUE, 1)
        .handle::<Double>(async |job: Double, ctx: Context| match ctx.epoch().0 {
            1 => Err(JobError::fail("broken")),
            _ => Ok(job.value),
        })
        .build()
        .unwrap()
        .start();
    let handle = client.enqueue(&Double { value: 6 }).await.unwrap();
    assert!(handle.wait_timeout(DEADLINE).await.is_err());
    client.retry([handle.id()]).await.unwrap();
    assert_eq!(handle.wait_timeout(DEADLINE).await.unwrap(), 6);
    worker.stop();
    worker.join().await.unwrap();
}

#[tokio::test]
async fn queues_actors_and_sessions_are_asked_by_name() {
    let client = testing::client();
    let (queue, actor) = (client.queue(QUEUE), client.actor(Double::ACTOR));
    assert_eq!(queue.summary().await.unwrap(), None);
    assert!(queue.pause().await.unwrap() && !queue.pause().await.unwrap());
    let job = client.enqueue(&Double { value: 1 }).await.unwrap();
    client.enqueue(&Note { text: String::new() }).await.unwrap();
    let summary = queue.summary().await.unwrap().unwrap();
    assert_eq!((summary.pending.value, summary.paused), (1, true));
    let any = || JobFilter { limit: 10, ..JobFilter::default() };
    for jobs in [queue.jobs(any()).await.unwrap(), actor.jobs(any()).await.unwrap()] {
        assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [job.id()]);
    }
    assert!(!actor.is_paused().await.unwrap());
    assert!(
        actor.pause().await.unwrap() && actor.is_paused().await.unwrap() && actor.resume().await.unwrap()
    );
    assert!(queue.set_mode(QueueMode::RoundRobin).await.unwrap().changed);
    let both = [queue.matching().unwrap(), actor.matching().unwrap()];
    assert_eq!(client.cancel_matching(both[0].clone()).await.unwrap().cancelled, 1);
    assert_eq!(client.retry_matching(both[1].clone()).await.unwrap().retried, 1);
    assert!(queue.resume().await.unwrap());

    let worker = start(&client);
    assert_eq!(job.wait_timeout(DEADLINE).await.unwrap(), 1);
    let id = client.workers().await.unwrap()[0].worker;
    let session = client.worker(id);
    assert_eq!((session.id(), session.summary().await.unwrap().unwrap().worker), (id, id));
    assert_eq!(session.running().await.unwrap(), []);
    worker.stop();
    worker.join().await.unwrap();
    assert_eq!(session.summary().await.unwrap(), None);

    for error in [client.queue("").summary().await.map(drop), client.actor("").is_paused().await.map(drop)] {
        assert!(matches!(error, Err(OperateError::Name(_))), "{error:?}");
    }
    assert!(client.queue("").matching().is_err());
}

#[tokio::test]
async fn the_jobs_of_a_session_that_is_ended_run_elsewhere() {
    let (store, client) = Probe::new().shared();
    let dead = WorkerId::new();
    let (queue, actor) = (QueueName::new(QUEUE).unwrap(), ActorName::new(Double::ACTOR).unwrap());
    let registration = Registration {
        worker: dead,
        queues: vec![queue.clone()],
        actors: vec![actor],
        lease: Duration::from_hours(1),
        info: None,
    };
    store.register_worker(registration).await.unwrap();
    let job = client.enqueue(&Double { value: 3 }).await.unwrap();
    let queues = vec![QueueSlots { queue, slots: 1, turn: None }];
    let lease = Duration::from_hours(1);
    store.claim(ClaimRequest { worker: dead, queues, lease, oversample: 2 }).await.unwrap();
    assert_eq!(client.worker(dead).running().await.unwrap().len(), 1);
    let worker = start(&client);
    assert_eq!(client.worker(dead).end().await.unwrap(), 1);
    assert_eq!(client.worker(dead).end().await.unwrap(), 0);
    assert_eq!(job.wait_timeout(DEADLINE).await.unwrap(), 3);
    assert_eq!(client.store().job(job.id()).await.unwrap().unwrap().attempt, 1, "no attempt is burnt");
    worker.stop();
    worker.join().await.unwrap();
}
