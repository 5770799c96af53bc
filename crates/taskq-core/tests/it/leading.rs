//! The leader: who leads, what it does, and what it costs. In simulated time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use taskq_core::client::Client;
use taskq_core::model::{JobId, OutcomeKind, Status};
use taskq_core::store::Sweep;
use taskq_core::worker::{Context, JobResult, Worker, WorkerHandle};
use tokio::time::Instant;

use crate::jobs::*;
use crate::probe::*;

const SECOND: Duration = Duration::from_secs(1);
/// The time between two beats of the default lease.
const BEAT: Duration = Duration::from_secs(5);
/// At how many times between two beats a test lets something happen.
const PHASES: u32 = 32;

async fn echo(job: Double, ctx: Context) -> JobResult<i64> {
    Ok(job.value + i64::from(ctx.attempt()) * 100)
}

async fn never(_: Double, _: Context) -> JobResult<i64> {
    std::future::pending().await
}

fn start<F, R>(client: &Client, handler: F) -> WorkerHandle
where
    F: Fn(Double, Context) -> R + Send + Sync + 'static,
    R: Future<Output = JobResult<i64>> + Send + 'static,
{
    Worker::builder(client).queue(QUEUE, 4).handle::<Double>(handler).build().unwrap().start()
}

/// Starts a worker that leads and runs one job without end, and lets it vanish: none of its calls is answered any
/// more. Returns the job.
async fn vanished(store: &Arc<Probe>, client: &Client) -> JobId {
    let worker = start(client, never);
    let handle = client.enqueue(&Double { value: 1 }).await.unwrap();
    until_status(client, handle.id(), Status::Running).await;
    until("it leads", async || store.count("sweeps_due") > 0).await;
    store.act(|_| Some(Act::Hang));
    worker.stopper();
    handle.id()
}

#[tokio::test(start_paused = true)]
async fn an_idle_fleet_is_quiet() {
    let (first, client) = Probe::simulated().shared();
    let (second, other) = first.beside().shared();
    let leader = start(&client, echo);
    until("it leads", async || first.count("sweeps_due") > 0).await;
    let follower = start(&other, echo);
    tokio::time::sleep(SECOND * 5).await;
    let before = (first.worker_calls(), second.worker_calls());
    tokio::time::sleep(SECOND * 120).await;
    let (leads, follows) = (first.worker_calls() - before.0, second.worker_calls() - before.1);
    assert!(leads <= 240, "the leader made {leads} calls in 120 s");
    assert!(follows <= 120, "another made {follows} calls in 120 s");
    assert_eq!(second.count("sweeps_due"), 0);
    leader.stop();
    follower.stop();
    leader.join().await.unwrap();
    follower.join().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_workers_job_runs_again_and_its_own_attempt_has_ended_by_then() {
    struct Ended(Arc<Mutex<Option<Instant>>>);
    impl Drop for Ended {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = Some(Instant::now());
        }
    }
    let (first, client) = Probe::simulated().shared();
    let (_, other) = first.beside().shared();
    let ended = Arc::new(Mutex::new(None));
    let guard = Arc::clone(&ended);
    let gone = start(&client, move |_, _| {
        let guard = Ended(Arc::clone(&guard));
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    });
    let handle = client.enqueue(&Double { value: 1 }).await.unwrap();
    let held_by = until_status(&client, handle.id(), Status::Running).await.worker;
    let vanished = Instant::now();
    first.act(|_| Some(Act::Hang));
    let second = start(&other, echo);
    let handle = other.handle::<Double>(handle.id());
    assert_eq!(handle.wait_timeout(SECOND * 60).await.unwrap(), 201, "by its second attempt");
    let took = vanished.elapsed();
    assert!((SECOND * 24..SECOND * 35).contains(&took), "{took:?}");
    let lost = other.store().attempts(handle.id()).await.unwrap().remove(0);
    assert_eq!((lost.outcome, Some(lost.worker)), (OutcomeKind::Crashed, held_by));
    assert_eq!(lost.error.unwrap().class, "lost");
    let ended = ended.lock().unwrap().expect("the first attempt was stopped");
    assert!(ended < vanished + SECOND * 30, "before its lease ended");
    second.stop();
    assert_eq!(second.join().await.unwrap().succeeded, 1);
    drop(gone);
}

#[tokio::test(start_paused = true)]
async fn leadership_ends_by_its_own_deadline_and_another_takes_over() {
    let (first, client) = Probe::simulated().shared();
    let (second, other) = first.beside().shared();
    let _leader = start(&client, echo);
    until("it leads", async || first.count("sweeps_due") > 0).await;
    // When it last beat with success, and when it last looked.
    let times = Arc::new(Mutex::new((Instant::now(), Instant::now())));
    let (fails, sees) = (Arc::new(AtomicBool::new(false)), Arc::clone(&times));
    let failing = Arc::clone(&fails);
    first.act(move |call| match call {
        Call::Beat(_) if failing.load(Ordering::SeqCst) => Some(Act::Fail(unavailable())),
        Call::Beat(_) => {
            sees.lock().unwrap().0 = Instant::now();
            None
        }
        Call::SweepsDue(_) => {
            sees.lock().unwrap().1 = Instant::now();
            None
        }
        _ => None,
    });
    tokio::time::sleep(SECOND * 12).await;
    fails.store(true, Ordering::SeqCst);
    tokio::time::sleep(SECOND * 20).await;
    let (beat, look) = *times.lock().unwrap();
    let trusted = look - beat;
    assert!((SECOND * 14..SECOND * 15).contains(&trusted), "it trusts its lease for 15 s: {trusted:?}");
    let _follower = start(&other, echo);
    until("the other leads", async || second.count("sweeps_due") > 0).await;
    let due = other.enqueue(&Double { value: 1 }).run_in(SECOND).await.unwrap();
    assert_eq!(due.wait_timeout(SECOND * 2).await.unwrap(), 101);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_stuck_in_a_sweep_does_not_renew_its_lease() {
    let (first, client) = Probe::simulated().shared();
    let (second, other) = first.beside().shared();
    let _leader = start(&client, echo);
    until("it leads", async || first.count("sweeps_due") > 0).await;
    let _follower = start(&other, echo);
    let asked = Arc::new(AtomicBool::new(true));
    let asks = Arc::clone(&asked);
    first.act(move |call| match call {
        Call::Beat(beat) => {
            asks.store(beat.leadership.is_some(), Ordering::SeqCst);
            None
        }
        Call::SweepsDue(_) => Some(Act::Hang),
        _ => None,
    });
    let begun = Instant::now();
    until_in(SECOND * 40, "the other leads", async || second.count("sweeps_due") > 0).await;
    assert!(!asked.load(Ordering::SeqCst));
    assert!(begun.elapsed() < SECOND * 35, "{:?}", begun.elapsed());
    assert_eq!(first.count("register"), 1, "its session goes on");
}

#[tokio::test(start_paused = true)]
async fn a_scheduled_job_is_ready_within_50_ms_of_its_time() {
    let (_, client) = Probe::simulated().shared();
    let worker = start(&client, async |_, ctx: Context| {
        let began = ctx.client().store().job(ctx.id()).await?.and_then(|job| job.started_at);
        let late = began.unwrap().duration_since(ctx.scheduled_at());
        Ok(i64::try_from(late.as_millis())?)
    });
    for (id, millis) in [(1, 700), (2, 1_450), (3, 5_003), (4, 61_000)] {
        let delay = Duration::from_millis(millis);
        let handle = client.enqueue(&Double { value: id }).run_in(delay).await.unwrap();
        let late = handle.wait_timeout(delay + SECOND).await.unwrap();
        assert!((0..=50).contains(&late), "{late} ms late");
    }
    worker.stop();
    worker.join().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_one_sweep_stops_no_other() {
    for broken in ["promote", "mark_lost", "reclaim", "sweeps_due"] {
        let (first, client) = Probe::simulated().shared();
        let (second, other) = first.beside().shared();
        let lost = vanished(&first, &client).await;
        second.fail(move |call| {
            let fails = match call {
                Call::Sweep(sweep, _) => broken == sweep.as_str(),
                Call::Reclaim(_) => broken == "reclaim",
                Call::SweepsDue(_) => broken == "sweeps_due",
                _ => false,
            };
            fails.then(refused)
        });
        let worker = start(&other, echo);
        let due = other.enqueue(&Double { value: 1 }).run_in(SECOND * 60).await.unwrap();
        let promoted = due.wait_timeout(SECOND * 75).await;
        assert_eq!(promoted.is_ok(), broken != "promote", "{broken}: {promoted:?}");
        let status = job(&other, lost).await.status;
        let expected = match broken {
            "promote" => Status::Scheduled,
            "sweeps_due" => Status::Succeeded,
            _ => Status::Running,
        };
        assert_eq!(status, expected, "{broken}");
        second.heal();
        assert_eq!(other.handle::<Double>(lost).wait_timeout(SECOND * 30).await.unwrap(), 201, "{broken}");
        worker.stop();
        worker.join().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_sweep_is_not_repeated_without_a_pause() {
    let (store, client) = Probe::simulated().shared();
    let _worker = start(&client, echo);
    until("it leads", async || store.count("sweeps_due") > 0).await;
    client.enqueue(&Double { value: 1 }).run_in(SECOND).await.unwrap();
    store.fail(|call| matches!(call, Call::Sweep(Sweep::Promote, _)).then(refused));
    tokio::time::sleep(SECOND * 60).await;
    let (probes, promotes) = (store.count("sweeps_due"), store.count("promote"));
    assert!((5..40).contains(&promotes), "{promotes} promotes in 60 s");
    assert!(probes < 100, "{probes} probes in 60 s");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_cannot_be_moved_is_passed_over_and_tried_every_minute() {
    let (first, client) = Probe::simulated().shared();
    let bad = vanished(&first, &client).await;
    let (second, other) = first.beside().with_immovable(bad).shared();
    let good = other.enqueue(&Double { value: 2 }).await.unwrap();
    let (tries, calls) = (Arc::new(Mutex::new(Vec::new())), Arc::clone(&second));
    let seen = Arc::clone(&tries);
    second.act(move |call| {
        if let Call::Reclaim(skip) = call
            && !skip.contains(&bad)
        {
            seen.lock().unwrap().push(Instant::now());
        }
        None
    });
    let worker = start(&other, echo);
    good.wait_timeout(SECOND * 5).await.unwrap();
    tokio::time::sleep(SECOND * 190).await;
    let tries = tries.lock().unwrap().clone();
    let gaps: Vec<_> = tries.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert!(tries.len() >= 3 && gaps.iter().all(|gap| (60..=63).contains(gap)), "{gaps:?}");
    let reclaims = calls.count("reclaim");
    assert!(reclaims < 110, "{reclaims} reclaims in 190 s");
    worker.stop();
    worker.join().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn leases_that_ended_in_an_outage_burn_no_attempt() {
    let (first, client) = Probe::simulated().shared();
    let (second, other) = first.beside().shared();
    let lost = vanished(&first, &client).await;
    let worker = start(&other, echo);
    tokio::time::sleep(SECOND * 2).await;
    second.fail(|_| Some(unavailable()));
    tokio::time::sleep(SECOND * 40).await;
    second.heal();
    let back = Instant::now();
    let handle = other.handle::<Double>(lost);
    assert_eq!(handle.wait_timeout(SECOND * 60).await.unwrap(), 101, "still its first attempt");
    assert!(back.elapsed() >= SECOND * 10, "two beats were waited: {:?}", back.elapsed());
    assert!(back.elapsed() < SECOND * 20, "{:?}", back.elapsed());
    assert_eq!(job(&other, lost).await.epoch.0, 2);

    // What the same leader declares lost later is not forgiven.
    let (third, client) = second.beside().shared();
    let builder = Worker::builder(&client).queue(QUEUE, 1).queue("elsewhere", 1);
    let _gone = builder.handle::<Double>(never).build().unwrap().start();
    let handle = client.enqueue(&Double { value: 1 }).queue("elsewhere").await.unwrap();
    until_status(&client, handle.id(), Status::Running).await;
    third.act(|_| Some(Act::Hang));
    until_in(SECOND * 40, "it is lost", async || job(&other, handle.id()).await.status != Status::Running)
        .await;
    assert_eq!(job(&other, handle.id()).await.attempt, 1, "its attempt is burnt");
    worker.stop();
    worker.join().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn workers_come_back_by_themselves_after_an_outage() {
    // The pauses between two tries are random, and an outage begins anywhere between two beats.
    for seed in 0..PHASES {
        fastrand::seed(u64::from(seed));
        let phase = BEAT * seed / PHASES;
        let calls_fail: fn() -> Act = || Act::Fail(unavailable());
        let nothing_answers: fn() -> Act = || Act::Hang;
        for (how, act) in [("calls fail", calls_fail), ("nothing answers", nothing_answers)] {
            survive(&format!("{how}, seed {seed}"), phase, act).await;
        }
    }
}

/// Two workers, one of them the leader, with a store that is away for 20 s, from some time on.
async fn survive(case: &str, phase: Duration, act: fn() -> Act) {
    let (first, client) = Probe::simulated().shared();
    let (second, other) = first.beside().shared();
    let leader = start(&client, never);
    let handle = client.enqueue(&Double { value: 1 }).await.unwrap();
    until_status(&client, handle.id(), Status::Running).await;
    let follower = start(&other, never);
    tokio::time::sleep(SECOND + phase).await;
    for store in [&first, &second] {
        store.act(move |_| Some(act()));
    }
    // Less than the lease: nobody stops anything.
    tokio::time::sleep(SECOND * 20).await;
    for store in [&first, &second] {
        store.heal();
    }
    tokio::time::sleep(SECOND * 30).await;
    let record = job(&client, handle.id()).await;
    assert_eq!((record.status, record.epoch.0), (Status::Running, 1), "{case}");
    assert_eq!((first.count("register"), second.count("register")), (1, 1), "{case}");
    assert_eq!(first.count("mark_lost") + second.count("mark_lost"), 0, "{case}");
    leader.stop_now();
    follower.stop_now();
    assert_eq!(leader.join().await.unwrap().released, 1, "{case}");
    follower.join().await.unwrap();
}
