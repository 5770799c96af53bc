//! How the leader runs its sweeps: batches, failures, where they go on, what is told of them. In simulated time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use taskq_core::client::Client;
use taskq_core::store::{LookFrom, Setting, StoreError, Sweep, SweepSummary};
use taskq_core::worker::{BuildError, Context, JobResult, Worker, WorkerHandle};
use tokio::time::Instant;

use crate::jobs::*;
use crate::probe::*;

const SECOND: Duration = Duration::from_secs(1);

/// A worker that leads and serves nothing that the tests enqueue.
async fn leader(store: &Arc<Probe>, client: &Client) -> WorkerHandle {
    let idle = async |_: Double, _: Context| -> JobResult<i64> { Ok(0) };
    let builder = Worker::builder(client).queue("elsewhere", 1).queue(QUEUE, 1);
    let worker = builder.handle::<Double>(idle).build().unwrap().start();
    until("it leads", async || store.count("sweeps_due") > 0).await;
    worker
}

fn timed_out() -> StoreError {
    StoreError::TimedOut { message: "told to be".to_owned() }
}

async fn summary(client: &Client, sweep: Sweep) -> SweepSummary {
    let summaries = client.store().sweeps().await.unwrap();
    summaries.into_iter().find(|summary| summary.sweep == sweep).unwrap()
}

/// The limits of the batches of a sweep, and when they were asked for.
type Batches = Arc<Mutex<Vec<(u32, Instant)>>>;

/// Lets batches of the promote sweep that are larger than `most` take too long, and notes all of them.
fn too_slow_above(store: &Probe, most: u32) -> Batches {
    let batches = Batches::default();
    let seen = Arc::clone(&batches);
    store.act(move |call| {
        let Call::Sweep(Sweep::Promote, call) = call else { return None };
        seen.lock().unwrap().push((call.limit, Instant::now()));
        (call.limit > most).then(|| Act::Fail(timed_out()))
    });
    batches
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_takes_too_long_is_halved_told_and_grows_back() {
    let (store, client) = Probe::simulated().shared();
    let _worker = leader(&store, &client).await;
    let jobs: Vec<Double> = (0..4_000).map(|value| Double { value }).collect();
    for job in &jobs {
        // Written together by the coalescer.
        client.enqueue(job).run_in(SECOND * 60).await.unwrap();
    }
    let batches = too_slow_above(&store, 300);
    tokio::time::sleep(SECOND * 75).await;
    let limits: Vec<u32> = batches.lock().unwrap().iter().map(|(limit, _)| *limit).collect();
    assert_eq!(limits[..4], [1_000, 500, 250, 250], "{limits:?}");
    assert!(limits.contains(&500) && limits.iter().all(|limit| *limit >= 250), "{limits:?}");
    let told = summary(&client, Sweep::Promote).await;
    assert_eq!((told.swept, told.backlog.value), (4_000, 0));
    assert!(told.last_error.unwrap().contains("told to be"));
    assert!(told.last_error_at.unwrap() < told.last_run_at.unwrap(), "it is dealt with");
    assert_eq!(told.batch, Some(250));

    store.heal();
    let batches = too_slow_above(&store, u32::MAX);
    for turn in 0..40 {
        client.enqueue(&Double { value: turn }).run_in(SECOND).await.unwrap();
        tokio::time::sleep(SECOND * 2).await;
    }
    assert_eq!(batches.lock().unwrap().last().unwrap().0, 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_always_takes_too_long_holds_up_no_other() {
    let (store, client) = Probe::simulated().shared();
    let (gone, other) = store.beside().shared();
    let _worker = leader(&store, &client).await;
    client.enqueue(&Double { value: 1 }).run_in(SECOND).await.unwrap();
    let batches = too_slow_above(&store, 0);
    let idle = async |_: Double, _: Context| -> JobResult<i64> { Ok(0) };
    let lost = Worker::builder(&other).queue(QUEUE, 1).lease(SECOND * 5);
    let _lost = lost.handle::<Double>(idle).build().unwrap().start();
    until("it has registered", async || gone.count("claim") > 0).await;
    gone.act(|_| Some(Act::Hang));
    tokio::time::sleep(SECOND * 10).await;
    assert_eq!(summary(&client, Sweep::MarkLost).await.swept, 1, "the other sweeps run");
    tokio::time::sleep(SECOND * 60).await;
    let tried = batches.lock().unwrap().clone();
    assert_eq!(tried.last().unwrap().0, 1, "it ends at single rows");
    assert!((12..60).contains(&tried.len()), "{} tries", tried.len());
    assert_eq!(summary(&client, Sweep::Promote).await.backlog.value, 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_batch_is_followed_at_once_by_one_that_goes_on_behind_it() {
    let (store, client) = Probe::simulated().shared();
    let _worker = leader(&store, &client).await;
    for value in 0..2_500 {
        client.enqueue(&Double { value }).run_in(SECOND * 10).await.unwrap();
    }
    let calls: Arc<Mutex<Vec<_>>> = Arc::default();
    let seen = Arc::clone(&calls);
    store.act(move |call| {
        if let Call::Sweep(Sweep::Promote, call) = call {
            seen.lock().unwrap().push((call.after.clone(), Instant::now()));
        }
        None
    });
    tokio::time::sleep(SECOND * 12).await;
    let calls = calls.lock().unwrap().clone();
    assert_eq!(calls.len(), 3);
    assert!(calls[0].0 < calls[1].0 && calls[1].0 < calls[2].0, "{calls:?}");
    assert_eq!(calls[0].1, calls[2].1, "without a pause");
}

#[tokio::test(start_paused = true)]
async fn looks_from_the_start_that_are_dear_come_in_their_share_of_the_time() {
    let (store, client) = Probe::simulated().shared();
    let _worker = leader(&store, &client).await;
    let looks: Arc<Mutex<Vec<(bool, Instant)>>> = Arc::default();
    let seen = Arc::clone(&looks);
    store.act(move |call| {
        let Call::SweepsDue(probes) = call else { return None };
        let promote = probes.iter().find(|probe| probe.sweep == Sweep::Promote)?;
        let from_start = promote.from == LookFrom::Start;
        seen.lock().unwrap().push((from_start, Instant::now()));
        from_start.then(|| Act::Fail(timed_out()))
    });
    tokio::time::sleep(SECOND * 120).await;
    let looks = looks.lock().unwrap().clone();
    let from_start: Vec<Instant> = looks.iter().filter(|look| look.0).map(|look| look.1).collect();
    let gaps: Vec<u64> = from_start.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert!(from_start.len() >= 3 && gaps.iter().all(|gap| (34..=37).contains(gap)), "{gaps:?}");
    assert!(looks.len() > 100, "{} looks go on from where they were", looks.len());
    // Meanwhile what is due is promoted.
    let due = client.enqueue(&Double { value: 1 }).run_in(SECOND).await.unwrap();
    due.wait_timeout(SECOND * 5).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_the_sweeps_did_is_written_down_and_no_more_than_that() {
    let (store, client) = Probe::simulated().shared();
    let _worker = leader(&store, &client).await;
    tokio::time::sleep(SECOND * 60).await;
    assert_eq!(store.count("note_sweeps"), 0, "an idle fleet writes nothing");
    for value in 0..100 {
        client.enqueue(&Double { value }).run_in(SECOND).await.unwrap();
        tokio::time::sleep(SECOND / 2).await;
    }
    let notes = store.count("note_sweeps");
    assert!((5..=12).contains(&notes), "{notes} notes in 50 s");
    tokio::time::sleep(SECOND * 10).await;
    let told = summary(&client, Sweep::Promote).await;
    assert_eq!(told.swept, 100);
    assert!(told.last_run_at.is_some() && told.duration.is_some());
    let quiet = store.count("note_sweeps");
    tokio::time::sleep(SECOND * 60).await;
    assert_eq!(store.count("note_sweeps"), quiet);
}

/// Lets so many events happen.
async fn events(client: &Client, count: i64) {
    for value in 0..count {
        let id = client.enqueue(&Double { value }).queue("nobody").await.unwrap().id();
        client.cancel([id], None).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lowered_retention_takes_effect_without_a_restart() {
    let (store, client) = Probe::simulated().shared();
    let _worker = leader(&store, &client).await;
    events(&client, 5).await;
    tokio::time::sleep(SECOND * 120).await;
    assert_eq!(store.count("events"), 0, "they are kept for 7 days");
    client.set(Setting::EventRetentionPeriod(SECOND * 60)).await.unwrap();
    client.set(Setting::EventRetentionBatchSize(2)).await.unwrap();
    // Two looks, so that what the last batch did is written down as well.
    tokio::time::sleep(SECOND * 12).await;
    assert_eq!(store.count("events"), 3, "five in batches of two");
    let told = summary(&client, Sweep::Events).await;
    assert_eq!((told.swept, told.batch, told.overrides), (5, Some(2), None));
    client.set(Setting::EventRetentionBatchSize(10)).await.unwrap();
    client.set(Setting::EventRetentionPeriod(Duration::ZERO)).await.unwrap();
    events(&client, 5).await;
    tokio::time::sleep(SECOND * 120).await;
    assert_eq!(store.count("events"), 3, "zero keeps them for ever");
}

#[tokio::test(start_paused = true)]
async fn what_the_leaders_process_sets_counts_for_it_and_is_shown() {
    let (store, client) = Probe::simulated().shared();
    let idle = async |_: Double, _: Context| -> JobResult<i64> { Ok(0) };
    let builder = Worker::builder(&client).queue(QUEUE, 1).handle::<Double>(idle);
    let worker =
        builder.event_retention_period(SECOND * 30).event_retention_batch_size(4).build().unwrap().start();
    until("it leads", async || store.count("sweeps_due") > 0).await;
    until("it is written down", async || store.count("note_sweeps") > 0).await;
    let told = summary(&client, Sweep::Events).await.overrides.unwrap();
    assert!(told.as_str().contains("30.000000 seconds") && told.as_str().contains('4'), "{told}");
    client.set(Setting::EventRetentionPeriod(Duration::ZERO)).await.unwrap();
    events(&client, 5).await;
    tokio::time::sleep(SECOND * 40).await;
    assert_eq!(store.count("events"), 2, "five in batches of four");
    worker.stop();
    worker.join().await.unwrap();

    // Another leader sets nothing, and what the one before had set is not told of it.
    let _worker = leader(&store, &client).await;
    until("it leads", async || client.leader().await.unwrap().is_some()).await;
    assert_eq!(summary(&client, Sweep::Events).await.overrides, None);
}

#[tokio::test]
async fn a_retention_out_of_bounds_is_refused() {
    let (_, client) = Probe::new().shared();
    let idle = async |_: Double, _: Context| -> JobResult<i64> { Ok(0) };
    let builder = || Worker::builder(&client).queue(QUEUE, 1).handle::<Double>(idle);
    for size in [0, 100_001] {
        let refused = builder().event_retention_batch_size(size).build().unwrap_err();
        assert_eq!(refused, BuildError::EventRetentionBatchSize { size });
    }
    let period = Duration::from_hours(24 * 36_601);
    let refused = builder().event_retention_period(period).build().unwrap_err();
    assert_eq!(refused, BuildError::EventRetentionPeriod { period });
    builder().event_retention_period(Duration::ZERO).event_retention_batch_size(100_000).build().unwrap();
}

/// The store fails in what the leader asks: the leader waits in between, and what else the process does goes on.
#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_ask_waits_though_it_has_notes_to_write() {
    let (store, client) = Probe::simulated().shared();
    let _worker = leader(&store, &client).await;
    client.enqueue(&Double { value: 1 }).queue("nobody").run_in(SECOND).await.unwrap();
    until("it is promoted", async || summary(&client, Sweep::Promote).await.swept == 1).await;
    // Something that is not written down yet, and then no answer any more.
    client.enqueue(&Double { value: 2 }).queue("nobody").run_in(SECOND).await.unwrap();
    let asked = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&asked);
    let promoted = Arc::new(Mutex::new(false));
    store.act(move |call| match call {
        Call::Sweep(Sweep::Promote, _) => {
            *promoted.lock().unwrap() = true;
            None
        }
        Call::SweepsDue(_) if *promoted.lock().unwrap() => {
            *seen.lock().unwrap() += 1;
            Some(Act::Fail(StoreError::Unavailable { message: "told to be".to_owned(), source: None }))
        }
        _ => None,
    });
    tokio::time::sleep(SECOND * 30).await;
    let asked = *asked.lock().unwrap();
    assert!((1..60).contains(&asked), "it asked {asked} times in 30 s");
}

#[tokio::test(start_paused = true)]
async fn due_jobs_that_cannot_be_had_are_asked_for_with_the_next_look_only() {
    let (store, client) = Probe::simulated().shared();
    let _worker = leader(&store, &client).await;
    let batches = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&batches);
    store.lock_rows();
    store.act(move |call| {
        if let Call::Sweep(Sweep::Promote, _) = call {
            *seen.lock().unwrap() += 1;
        }
        None
    });
    client.enqueue(&Double { value: 1 }).queue("nobody").run_in(SECOND).await.unwrap();
    tokio::time::sleep(SECOND * 21).await;
    let batches = *batches.lock().unwrap();
    assert!((10..=45).contains(&batches), "{batches} batches in 20 s");
}
