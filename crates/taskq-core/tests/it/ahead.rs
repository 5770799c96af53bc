//! Jobs that are claimed before a slot is free for them. In simulated time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use taskq_core::client::{Client, JobHandle, WaitError};
use taskq_core::model::{JobId, Outcome, OutcomeKind, QueueName, Settlement, Status};
use taskq_core::store::{CancelOutcome, JobFilter, LanePart};
use taskq_core::worker::{Context, Worker, WorkerBuilder, WorkerHandle};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::jobs::*;
use crate::probe::*;

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
/// How long a short job takes.
const SHORT: Duration = Duration::from_millis(10);
const SLOTS: u32 = 4;
/// The most jobs that are claimed ahead of slots that run short jobs: what they start in 100 ms.
const AHEAD: usize = 40;

/// A worker whose slots turn over fast and then all come to stand, with jobs waiting behind them.
struct Scene {
    store: Arc<Probe>,
    client: Client,
    worker: WorkerHandle,
    /// The first jobs are short.
    short: Vec<JobHandle<Double>>,
    /// They take a slot until they are let go, the first ones; the others wait.
    long: Vec<JobHandle<Double>>,
    gate: Arc<Semaphore>,
    /// Value and epoch of each start.
    starts: Arc<Mutex<Vec<(i64, i64)>>>,
}

impl Scene {
    async fn with(tune: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> Self {
        let (store, client) = Probe::simulated().shared();
        let short = client.enqueue_many::<Double>((0..100).map(|value| Double { value })).await.unwrap();
        let long = client.enqueue_many::<Double>((100..200).map(|value| Double { value })).await.unwrap();
        let (gate, starts) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(Vec::new())));
        let worker = start(&client, &gate, &starts, tune);
        let scene = Self { store, client, worker, short, long, gate, starts };
        until("the slots stand", async || scene.started().len() == 100 + SLOTS as usize).await;
        // A claim that is under way is answered.
        tokio::time::sleep(MILLISECOND).await;
        let held = scene.held().await.len();
        assert!((20..=AHEAD + SLOTS as usize).contains(&held), "some wait behind them: {held} are held");
        scene
    }

    async fn new() -> Self {
        Self::with(|builder| builder).await
    }

    fn started(&self) -> Vec<(i64, i64)> {
        self.starts.lock().unwrap().clone()
    }

    /// What the store thinks the worker runs.
    async fn held(&self) -> Vec<JobId> {
        running(&self.client).await
    }

    /// The jobs that are claimed and have not started.
    async fn waiting(&self) -> Vec<&JobHandle<Double>> {
        let (held, started) = (self.held().await, self.started());
        let wait = |(value, handle): &(i64, &JobHandle<Double>)| {
            held.contains(&handle.id()) && !started.iter().any(|(started, _)| started == value)
        };
        (100..).zip(&self.long).filter(wait).map(|(_, handle)| handle).collect()
    }

    /// The values of jobs that are long.
    fn values(&self, handles: &[&JobHandle<Double>]) -> Vec<i64> {
        let is_one = |long: &JobHandle<Double>| handles.iter().any(|handle| handle.id() == long.id());
        (100..).zip(&self.long).filter(|(_, long)| is_one(long)).map(|(value, _)| value).collect()
    }

    /// Lets every job go and waits for all of them.
    async fn finish(self) -> Vec<(i64, i64)> {
        let (starts, stale) = self.finish_with_stale().await;
        assert_eq!(stale, 0);
        starts
    }

    /// The same where outcomes may come too late; returns how many did.
    async fn finish_with_stale(self) -> (Vec<(i64, i64)>, u64) {
        self.gate.add_permits(1_000);
        for handle in self.short.iter().chain(&self.long) {
            match handle.wait_timeout(SECOND * 120).await {
                Ok(_) | Err(WaitError::Cancelled { .. } | WaitError::Failed { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        self.worker.stop();
        let report = self.worker.join().await.unwrap();
        assert_eq!((report.unsettled, report.stuck), (0, 0));
        let starts = self.starts.lock().unwrap().clone();
        (starts, report.stale)
    }
}

/// Starts a worker for short jobs (values under 100) and long ones.
fn start(
    client: &Client,
    gate: &Arc<Semaphore>,
    starts: &Arc<Mutex<Vec<(i64, i64)>>>,
    tune: impl FnOnce(WorkerBuilder) -> WorkerBuilder,
) -> WorkerHandle {
    let (gate, starts) = (Arc::clone(gate), Arc::clone(starts));
    let builder =
        Worker::builder(client).queue(QUEUE, SLOTS).handle::<Double>(move |job: Double, ctx: Context| {
            let (gate, starts) = (Arc::clone(&gate), Arc::clone(&starts));
            async move {
                starts.lock().unwrap().push((job.value, ctx.epoch().0));
                if job.value < 100 {
                    tokio::time::sleep(SHORT).await;
                } else {
                    gate.acquire().await?.forget();
                }
                Ok(ctx.epoch().0)
            }
        });
    tune(builder).build().unwrap().start()
}

async fn running(client: &Client) -> Vec<JobId> {
    let filter =
        JobFilter { status: Some(Status::Running), queue: None, actor: None, before: None, limit: 1_000 };
    client.store().jobs(filter).await.unwrap().iter().map(|job| job.id).collect()
}

#[tokio::test(start_paused = true)]
async fn slots_find_the_next_job_at_once_and_in_the_order_of_the_claims() {
    let (store, client) = Probe::simulated().shared();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let starts = Arc::new(Mutex::new(Vec::new()));
    let shared = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&starts));
    let handles = client.enqueue_many::<Double>((0..400).map(|value| Double { value })).await.unwrap();
    let begun = Instant::now();
    let worker = Worker::builder(&client)
        .queue(QUEUE, SLOTS)
        .handle::<Double>(move |job: Double, _| {
            let (now, most, starts) = shared.clone();
            async move {
                starts.lock().unwrap().push(job.value);
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(SHORT).await;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(job.value)
            }
        })
        .build()
        .unwrap()
        .start();
    let mut held = 0;
    while handles[399].wait_timeout(MILLISECOND).await.is_err() {
        held = held.max(running(&client).await.len());
    }
    assert_eq!(most.load(Ordering::SeqCst), SLOTS as usize, "no more run at once than there are slots");
    assert_eq!(*starts.lock().unwrap(), (0..400).collect::<Vec<_>>());
    assert!(
        begun.elapsed() <= SHORT * 101 + MILLISECOND * 5,
        "no slot waits for a claim: {:?}",
        begun.elapsed()
    );
    assert!(held <= AHEAD + SLOTS as usize, "{held} were held at once");
    let claims = store.count("claim");
    assert!(claims <= 40, "{claims} claims instead of 100");
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.succeeded, report.released), (400, 0));
}

#[tokio::test(start_paused = true)]
async fn a_worker_holds_no_more_long_jobs_than_it_has_slots() {
    for length in [SECOND, SECOND * 10] {
        let (_, client) = Probe::simulated().shared();
        let handles = client.enqueue_many::<Double>((0..20).map(|value| Double { value })).await.unwrap();
        let worker = Worker::builder(&client)
            .queue(QUEUE, SLOTS)
            .handle::<Double>(move |job: Double, _| async move {
                tokio::time::sleep(length).await;
                Ok(job.value)
            })
            .build()
            .unwrap()
            .start();
        until("it has begun", async || running(&client).await.len() == SLOTS as usize).await;
        for _ in 0..45 {
            tokio::time::sleep(length / 10).await;
            assert_eq!(running(&client).await.len(), SLOTS as usize);
        }
        for handle in &handles {
            handle.wait_timeout(SECOND * 60).await.unwrap();
        }
        worker.stop();
        assert_eq!(worker.join().await.unwrap().released, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_waits_behind_slots_that_stand_goes_to_a_worker_that_has_one() {
    let scene = Scene::new().await;
    let waited: Vec<_> = scene.waiting().await.iter().map(|handle| handle.id()).collect();
    let (stood, claims) = (Instant::now(), scene.store.count("claim"));
    until("they are given back", async || scene.held().await.len() == SLOTS as usize).await;
    assert!(stood.elapsed() <= SECOND + MILLISECOND * 200, "{:?}", stood.elapsed());
    for id in &waited {
        let job = job(&scene.client, *id).await;
        assert_eq!((job.status, job.attempt), (Status::Pending, 0), "no attempt is burnt");
        let attempts = scene.client.store().attempts(*id).await.unwrap();
        assert_eq!(attempts.iter().map(|past| past.outcome).collect::<Vec<_>>(), [OutcomeKind::Released]);
    }
    tokio::time::sleep(SECOND * 20).await;
    assert_eq!(scene.held().await.len(), SLOTS as usize, "they are not claimed again");
    assert!(scene.store.count("claim") <= claims + 1, "nor asked for");

    let (_, other) = scene.store.beside().shared();
    let (open, starts) = (Arc::new(Semaphore::new(1_000)), Arc::new(Mutex::new(Vec::new())));
    let second = start(&other, &open, &starts, |builder| builder);
    for handle in &scene.long[SLOTS as usize..] {
        handle.wait_timeout(SECOND * 5).await.unwrap();
    }
    assert_eq!(starts.lock().unwrap().len(), scene.long.len() - SLOTS as usize);
    scene.finish().await;
    second.stop();
    second.join().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_gives_back_what_waits_and_lets_attempts_go_on() {
    for now in [false, true] {
        let scene = Scene::new().await;
        let waited: Vec<_> = scene.waiting().await.iter().map(|handle| handle.id()).collect();
        if now {
            scene.worker.stop_now();
        } else {
            scene.worker.stop();
        }
        let begun = Instant::now();
        let released = async || {
            let mut released = 0;
            for id in &waited {
                let job = job(&scene.client, *id).await;
                released += usize::from((job.status, job.attempt) == (Status::Pending, 0));
            }
            released == waited.len()
        };
        until("they are given back", released).await;
        assert!(begun.elapsed() < MILLISECOND * 10, "at once: {:?}", begun.elapsed());
        if !now {
            assert_eq!(scene.held().await.len(), SLOTS as usize, "what runs goes on");
            scene.gate.add_permits(SLOTS as usize);
        }
        let report = scene.worker.join().await.unwrap();
        let (ended, given_back) = if now { (100, waited.len() + 4) } else { (104, waited.len()) };
        assert_eq!((report.succeeded, report.released), (ended, given_back as u64));
        assert_eq!((report.stale, report.unsettled, report.exit_code()), (0, 0, 0));
        assert_eq!(scene.starts.lock().unwrap().len(), 104, "nothing more has started");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_cancelled_while_it_waits_never_starts() {
    let scene = Scene::new().await;
    let waiting = scene.waiting().await;
    // One that stands in front, one in the middle, one at the end.
    let cancelled = [0, waiting.len() / 2, waiting.len() - 1].map(|at| waiting[at]);
    let ids: Vec<_> = cancelled.iter().map(|handle| handle.id()).collect();
    let answers = scene.client.store().cancel(ids.clone(), None).await.unwrap();
    assert!(answers.iter().all(|answer| answer.outcome == CancelOutcome::Requested));
    let asked = Instant::now();
    for id in &ids {
        until_status(&scene.client, *id, Status::Cancelled).await;
    }
    assert!(asked.elapsed() < MILLISECOND * 50, "told at once: {:?}", asked.elapsed());
    let values = scene.values(&cancelled);
    let starts = scene.finish().await;
    assert_eq!(values.len(), 3);
    assert!(starts.iter().all(|(value, _)| !values.contains(value)), "{values:?} have started");
    assert_eq!(starts.len(), 197, "all the others have, once");
}

#[tokio::test(start_paused = true)]
async fn what_waits_when_the_lease_is_lost_runs_in_the_next_session_only() {
    let scene = Scene::with(|builder| builder.lease(SECOND * 2)).await;
    let waited: Vec<_> = scene.waiting().await.iter().map(|handle| handle.id()).collect();
    scene.store.act(|call| matches!(call, Call::Beat(_)).then_some(Act::Hang));
    until_in(SECOND * 5, "a new session", async || scene.store.count("register") == 2).await;
    scene.store.heal();
    for id in waited {
        assert_eq!(job(&scene.client, id).await.attempt, 0, "it went back with its session");
    }
    let starts = scene.finish().await;
    let first: Vec<_> = starts.iter().filter(|(_, epoch)| *epoch == 1).map(|(value, _)| *value).collect();
    let mut twice = first.clone();
    twice.sort_unstable();
    twice.dedup();
    assert_eq!(twice.len(), first.len(), "no attempt has started twice");
}

/// A process that is frozen past its lease: when it thaws, a slot turns over before the heartbeat notices.
#[tokio::test(start_paused = true)]
async fn nothing_that_waits_starts_behind_the_lease() {
    let scene = Scene::new().await;
    let waited = scene.values(&scene.waiting().await);
    scene.gate.add_permits(SLOTS as usize);
    tokio::time::advance(SECOND * 60).await;
    until_in(SECOND * 5, "a new session", async || scene.store.count("register") == 2).await;
    let (starts, stale) = scene.finish_with_stale().await;
    assert_eq!(stale, u64::from(SLOTS), "what ran by then came too late");
    for value in waited {
        assert!(!starts.contains(&(value, 1)), "job {value} has started under the lease that was over");
        assert!(starts.contains(&(value, 2)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_for_a_while_starts_what_waited() {
    let scene = Scene::with(|builder| builder.lease(SECOND * 300)).await;
    scene.store.skip(SECOND);
    tokio::time::advance(SECOND * 20).await;
    let starts = scene.finish().await;
    assert!(starts.iter().all(|(_, epoch)| *epoch == 1), "nothing was given back: {starts:?}");
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_held() {
    let scene = Scene::with(|builder| builder.lease(SECOND)).await;
    let compared = scene.store.count("held");
    tokio::time::sleep(MILLISECOND * 500).await;
    until_in(MILLISECOND * 400, "two comparisons", async || scene.store.count("held") >= compared + 2).await;
    assert!(scene.waiting().await.len() >= 16, "they still wait");
    let starts = scene.finish().await;
    assert!(starts.iter().all(|(_, epoch)| *epoch == 1), "nothing is taken for lost");
}

#[tokio::test(start_paused = true)]
async fn what_waits_and_the_store_does_not_list_does_not_start() {
    let scene = Scene::with(|builder| builder.lease(SECOND)).await;
    let handle = scene.waiting().await[0].clone();
    let waits = job(&scene.client, handle.id()).await;
    // Somebody else settles in its worker's name.
    let settlement = Settlement { id: waits.id, epoch: waits.epoch, outcome: Outcome::Released };
    scene.client.store().settle(waits.worker.unwrap(), vec![settlement]).await.unwrap();
    let compared = scene.store.count("held");
    until_in(MILLISECOND * 900, "a full comparison", async || scene.store.count("held") > compared).await;
    scene.gate.add_permits(1_000);
    assert_eq!(handle.wait_timeout(SECOND * 20).await.unwrap(), 2, "it runs by its second epoch");
    let value = scene.values(&[&handle])[0];
    let starts = scene.finish().await;
    assert!(!starts.contains(&(value, 1)), "the first epoch has not started");
}

#[tokio::test(start_paused = true)]
async fn what_waits_when_its_queue_is_paused_goes_back_and_stays_there() {
    let scene = Scene::new().await;
    let waited: Vec<_> = scene.waiting().await.iter().map(|handle| handle.id()).collect();
    let queue = LanePart::Queue(QueueName::new(QUEUE).unwrap());
    scene.client.store().pause(queue.clone()).await.unwrap();
    until_in(SECOND * 2, "they are given back", async || scene.held().await.len() == SLOTS as usize).await;
    scene.gate.add_permits(1_000);
    until_in(SECOND * 2, "the running ones end", async || scene.held().await.is_empty()).await;
    tokio::time::sleep(SECOND * 20).await;
    for id in waited {
        let job = job(&scene.client, id).await;
        assert_eq!((job.status, job.attempt), (Status::Pending, 0));
    }
    scene.client.store().resume(queue).await.unwrap();
    scene.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_deadline_passes_while_it_waits_does_not_start() {
    let (_, client) = Probe::simulated().shared();
    let (gate, starts) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(Vec::new())));
    let now =
        client.store().job(client.enqueue(&Double { value: 0 }).await.unwrap().id()).await.unwrap().unwrap();
    client.enqueue_many::<Double>((1..104).map(|value| Double { value })).await.unwrap();
    let within = |time| now.scheduled_at + time;
    // The slots come to stand at 250 ms.
    let soon = client.enqueue(&Double { value: 1_000 }).deadline(within(MILLISECOND * 600)).await.unwrap();
    let later = client.enqueue(&Double { value: 1_001 }).deadline(within(SECOND * 60)).await.unwrap();
    let worker = start(&client, &gate, &starts, |builder| builder);
    until("both wait", async || {
        let ended = starts.lock().unwrap().len() == 104;
        ended && running(&client).await.len() == SLOTS as usize + 2
    })
    .await;
    tokio::time::sleep(MILLISECOND * 500).await;
    gate.add_permits(1_000);
    assert_eq!(later.wait_timeout(SECOND).await.unwrap(), 1);
    let WaitError::Failed { error, .. } = soon.wait_timeout(SECOND).await.unwrap_err() else {
        panic!("it has not failed")
    };
    assert_eq!(error.unwrap().class, "deadline");
    assert!(!starts.lock().unwrap().iter().any(|(value, _)| *value == 1_000));
    worker.stop();
    worker.join().await.unwrap();
}
