//! Hooks of ends, in simulated time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use taskq_core::client::Client;
use taskq_core::model::{Epoch, EventLevel, HookName, JobId, Keep, Outcome, Settlement, Status, WorkerId};
use taskq_core::store::*;
use taskq_core::worker::{BuildError, Context, JobEnd, JobError, JobResult, RunError, Worker, WorkerBuilder};
use tokio::time::Instant;
use uuid::Uuid;

use crate::jobs::*;
use crate::probe::*;

const LEASE: Duration = Duration::from_secs(30);

type End = (JobId, Status, Option<Epoch>);

/// What a hook was told, in order.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<End>>>);

impl Told {
    fn note(&self, end: &JobEnd) {
        self.0.lock().unwrap().push((end.job, end.status, end.epoch));
    }

    fn jobs(&self) -> Vec<JobId> {
        self.0.lock().unwrap().iter().map(|(job, ..)| *job).collect()
    }

    async fn until(&self, count: usize) {
        until("ends are told", async || self.jobs().len() >= count).await;
    }
}

async fn double(job: Double, _: Context) -> JobResult<i64> {
    match job.value {
        0 => Err(JobError::fail("nothing to double")),
        value => Ok(value * 2),
    }
}

async fn scene() -> (Arc<Probe>, Client) {
    let (store, client) = Probe::simulated().shared();
    client.set(Setting::EventLevel(EventLevel::Ends)).await.unwrap();
    (store, client)
}

fn worker(client: &Client) -> WorkerBuilder {
    Worker::builder(client).queue(QUEUE, 4).handle::<Double>(double)
}

fn telling(client: &Client) -> (WorkerBuilder, Told) {
    let told = Told::default();
    let into = told.clone();
    let hook = move |end: JobEnd| {
        into.note(&end);
        async { Ok(()) }
    };
    (worker(client).on_end("hook", hook), told)
}

/// Waits until the hook is held.
async fn held(store: &Probe) {
    until("the hook is held", async || store.count("hold_hook") > 0).await;
}

/// Lets something end that never started.
async fn end_one(client: &Client) -> JobId {
    let job = client.enqueue(&Double { value: 1 }).run_in(Duration::from_hours(1)).await.unwrap();
    job.cancel().await.unwrap();
    job.id()
}

/// A worker of another kind, which takes one job.
async fn stranger(client: &Client, job: JobId) -> WorkerId {
    let worker = WorkerId::new();
    let record = self::job(client, job).await;
    let registration = Registration {
        worker,
        queues: vec![record.queue.clone()],
        actors: vec![record.actor.clone()],
        lease: LEASE,
        info: None,
    };
    client.store().register_worker(registration).await.unwrap();
    let queues = vec![QueueSlots { queue: record.queue, slots: 1, turn: None }];
    let request = ClaimRequest { worker, queues, lease: LEASE, oversample: 2 };
    let claimed = client.store().claim(request).await.unwrap();
    assert_eq!(claimed.jobs[0].id, job);
    worker
}

#[tokio::test(start_paused = true)]
async fn every_end_is_told_whoever_ended_it() {
    let (store, client) = scene().await;
    let (builder, told) = telling(&client);
    let worker = builder.build().unwrap().start();
    let other = |text: &str| client.enqueue(&Note { text: text.to_owned() });
    held(&store).await;

    let mut expected = BTreeMap::new();
    let succeeds = client.enqueue(&Double { value: 1 }).await.unwrap().id();
    let unkept = client.enqueue(&Double { value: 2 }).keep(Keep::None).await.unwrap().id();
    let fails = client.enqueue(&Double { value: 0 }).await.unwrap().id();
    let first = Some(Epoch(1));
    expected.extend([(succeeds, (Status::Succeeded, first)), (unkept, (Status::Succeeded, first))]);
    expected.insert(fails, (Status::Failed, first));
    expected.insert(end_one(&client).await, (Status::Cancelled, None));
    let foreign = other("by a stranger").await.unwrap().id();
    let stranger_id = stranger(&client, foreign).await;
    let success = Settlement { id: foreign, epoch: Epoch(1), outcome: Outcome::Succeeded { result: None } };
    client.store().settle(stranger_id, vec![success]).await.unwrap();
    expected.insert(foreign, (Status::Succeeded, first));
    let crashes = other("with a stranger").max_attempts(1).await.unwrap().id();
    stranger(&client, crashes).await;
    expected.insert(crashes, (Status::Crashed, first));
    let retried = other("with another").max_attempts(2).await.unwrap();
    stranger(&client, retried.id()).await;
    let now = job(&client, retried.id()).await.started_at.unwrap();
    let expires = other("too late").deadline(now + Duration::from_secs(5)).await.unwrap().id();
    expected.insert(expires, (Status::Failed, None));

    told.until(expected.len()).await;
    retried.cancel().await.unwrap();
    expected.insert(retried.id(), (Status::Cancelled, None));
    told.until(expected.len()).await;
    worker.stop();
    worker.join().await.unwrap();
    let told: Vec<_> = told.0.lock().unwrap().clone();
    assert_eq!(told.len(), expected.len(), "each once: {told:?}");
    for (job, status, epoch) in told {
        assert_eq!(expected[&job], (status, epoch), "{job}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_goes_on_where_it_was_left() {
    let (store, client) = scene().await;
    let (builder, told) = telling(&client);
    let worker = builder.build().unwrap().start();
    held(&store).await;
    let mut ended = vec![end_one(&client).await];
    // What the worker does until it has stopped is told before it is gone.
    let last = client.enqueue(&Double { value: 1 }).await.unwrap();
    last.wait().await.unwrap();
    ended.push(last.id());
    worker.stop();
    worker.join().await.unwrap();
    assert_eq!(told.jobs(), ended);

    let later = end_one(&client).await;
    let (builder, told) = telling(&client);
    let begun = Instant::now();
    let worker = builder.build().unwrap().start();
    told.until(1).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "it was given back: {:?}", begun.elapsed());
    assert_eq!(told.jobs(), [later]);
    worker.stop();
    worker.join().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn of_two_workers_one_tells_and_the_other_takes_over() {
    let (store, client) = scene().await;
    // It dies without a word.
    let hook = HookName::new("hook").unwrap();
    let hold = HookHold { hook, holder: Uuid::from_u128(7), lease: LEASE, reached: None };
    assert!(client.store().hold_hook(hold).await.unwrap().is_some());
    let begun = Instant::now();
    let (builder, told) = telling(&client);
    let first = builder.build().unwrap().start();
    let job = end_one(&client).await;
    told.until(1).await;
    assert_eq!(told.jobs(), [job]);
    assert!((LEASE..LEASE * 3 / 2).contains(&begun.elapsed()), "{:?}", begun.elapsed());

    // The next one waits until the first one gives it back.
    let second = store.beside().shared().1;
    let (builder, other_told) = telling(&second);
    let other = builder.build().unwrap().start();
    tokio::time::sleep(Duration::from_mins(5)).await;
    let job = end_one(&client).await;
    told.until(2).await;
    first.stop();
    first.join().await.unwrap();
    let last = end_one(&client).await;
    other_told.until(1).await;
    assert_eq!((told.jobs()[1..].to_vec(), other_told.jobs()), (vec![job], vec![last]));
    other.stop();
    other.join().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_is_told_again_and_of_nothing_else_until_then() {
    let (store, client) = scene().await;
    let (told, failures) = (Told::default(), Arc::new(AtomicUsize::new(0)));
    let (into, counter) = (told.clone(), Arc::clone(&failures));
    let hook = move |end: JobEnd| {
        let failures = counter.fetch_add(1, Ordering::SeqCst);
        if failures >= 3 {
            into.note(&end);
        }
        async move {
            match failures {
                0 | 1 => Err("not now".into()),
                2 => panic!("out of order"),
                _ => Ok(()),
            }
        }
    };
    let worker = worker(&client).on_end("hook", hook).build().unwrap().start();
    held(&store).await;
    let ended = [end_one(&client).await, end_one(&client).await];
    told.until(2).await;
    assert_eq!(told.jobs(), ended);
    assert_eq!(failures.load(Ordering::SeqCst), 5);
    worker.stop();
    worker.join().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_is_lost_is_stopped_and_told_again() {
    let (store, client) = scene().await;
    let (told, dropped) = (Told::default(), Arc::new(AtomicUsize::new(0)));
    let (into, counter) = (told.clone(), Arc::clone(&dropped));
    let hook = move |end: JobEnd| {
        into.note(&end);
        let is_first = into.jobs().len() == 1;
        let noticed = OnDrop(Arc::clone(&counter));
        async move {
            let _noticed = noticed;
            if is_first { std::future::pending().await } else { Ok(()) }
        }
    };
    let worker = worker(&client).on_end("hook", hook).build().unwrap().start();
    held(&store).await;
    let job = end_one(&client).await;
    told.until(1).await;
    store.fail(|call| matches!(call, Call::Hook).then(unavailable));
    let begun = Instant::now();
    until("the hook is stopped", async || dropped.load(Ordering::SeqCst) == 1).await;
    assert!(begun.elapsed() < LEASE, "before another can have it: {:?}", begun.elapsed());
    store.heal();
    told.until(2).await;
    assert_eq!(told.jobs(), [job, job]);
    worker.stop();
    worker.join().await.unwrap();
}

struct OnDrop(Arc<AtomicUsize>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_hook_would_not_be_told_refuses_to_run() {
    let (_, client) = Probe::simulated().shared();
    let (builder, _) = telling(&client);
    let error = builder.build().unwrap().start().join().await.unwrap_err();
    let RunError::Refused(StoreError::Invalid { message, .. }) = &error else { panic!("{error:?}") };
    assert!(
        message.contains("event_level is \"notable\"") && message.contains("set it to \"ends\""),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_hook_writes_only_to_keep_its_hold() {
    let (store, client) = scene().await;
    let (builder, told) = telling(&client);
    let worker = builder.build().unwrap().start();
    held(&store).await;
    let (holds, looks) = (store.count("hold_hook"), store.count("events"));
    tokio::time::sleep(Duration::from_mins(10)).await;
    let (holds, looks) = (store.count("hold_hook") - holds, store.count("events") - looks);
    assert!((50..=70).contains(&holds), "{holds} writes in ten minutes");
    assert!((500..=900).contains(&looks), "{looks} looks in ten minutes");
    assert_eq!(told.jobs(), []);
    worker.stop();
    worker.join().await.unwrap();
}

#[tokio::test]
async fn hooks_have_names_of_their_own() {
    let (_, client) = scene().await;
    let hook = async |_: JobEnd| Ok(());
    let twice = worker(&client).on_end("a", hook).on_end("b", hook).on_end("a", hook).build().unwrap_err();
    assert_eq!(twice, BuildError::DuplicateHook { hook: HookName::new("a").unwrap() });
    let nameless = worker(&client).on_end("", hook).build().unwrap_err();
    assert!(matches!(nameless, BuildError::Name(_)), "{nameless:?}");
    assert_eq!(nameless.to_string(), "hook is empty");
}
