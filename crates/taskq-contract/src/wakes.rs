//! Hints. They may come more often than needed, so each behaviour waits for the one it expects.

use std::time::Duration;

use taskq_core::model::{Notify, Outcome, Status};
use taskq_core::store::{JobMatch, QueueMode, Wake, Wakes};

use crate::draft::{draft, queue};
use crate::pause::{of_actor, of_queue};
use crate::scene::{HOUR, Scene};
use crate::worker::{failed, retry_after, snoozed, succeeded};

/// How long a hint may take, in real time: a deadline for a broken store, not a pace.
const PATIENCE: Duration = Duration::from_mins(1);

/// A delay after which a job is due before a leader would look by itself, which may be a second or more.
const SOON: Duration = Duration::from_secs(1);

/// Waits for a hint and passes over all others.
async fn wait_for(wakes: &mut Wakes, expected: Wake) {
    let found = async {
        while let Some(wake) = wakes.next().await {
            if wake == expected {
                return;
            }
        }
        panic!("the hints ended before {expected:?}");
    };
    let in_time = tokio::time::timeout(PATIENCE, found).await;
    assert!(in_time.is_ok(), "{expected:?} did not come");
}

fn ready(name: &str) -> Wake {
    Wake::Ready(queue(name))
}

pub(crate) async fn a_ready_job_wakes_its_queue(scene: Scene<'_>) {
    let mut wakes = scene.wakes();
    scene.add(draft()).await;
    wait_for(&mut wakes, ready("q")).await;
    scene.add(draft().at(scene.now().await - HOUR).queue("r")).await;
    wait_for(&mut wakes, ready("r")).await;
}

pub(crate) async fn each_queue_of_a_call_is_woken(scene: Scene<'_>) {
    for name in ["one", "two", "three"] {
        let mut wakes = scene.wakes();
        scene.enqueue(["one", "two", "three", "one"].map(|name| draft().queue(name))).await;
        wait_for(&mut wakes, ready(name)).await;
    }
}

pub(crate) async fn every_subscriber_is_woken(scene: Scene<'_>) {
    let (mut left, mut right) = (scene.wakes(), scene.wakes());
    scene.add(draft()).await;
    wait_for(&mut left, ready("q")).await;
    wait_for(&mut right, ready("q")).await;
}

pub(crate) async fn a_scheduled_job_wakes_the_leader(scene: Scene<'_>) {
    let mut wakes = scene.wakes();
    scene.add(draft().after(SOON)).await;
    wait_for(&mut wakes, Wake::Due).await;
    // On a slow machine it may be due by the time it is enqueued, which is told otherwise.
    while scene.enqueue([draft().at(scene.now().await + SOON)]).await[0].status != Some(Status::Scheduled) {}
    wait_for(&mut wakes, Wake::Due).await;
}

pub(crate) async fn a_job_that_waits_again_wakes_the_leader(scene: Scene<'_>) {
    for outcome in [failed(), retry_after(SOON), snoozed(SOON)] {
        let (worker, job) = scene.running(draft().retry_every(SOON)).await;
        let mut wakes = scene.wakes();
        worker.end(&job, outcome).await;
        wait_for(&mut wakes, Wake::Due).await;
    }
}

pub(crate) async fn a_job_that_is_ready_again_wakes_its_queue(scene: Scene<'_>) {
    let zero = Duration::ZERO;
    for (outcome, name) in [
        (failed(), "retried"),
        (retry_after(zero), "retried-after"),
        (snoozed(zero), "snoozed"),
        (Outcome::Released, "released"),
    ] {
        let mut wakes = scene.wakes();
        scene.add(draft().queue(name).retry_every(zero)).await;
        // The hint of the enqueue comes first, so the next one is the settlement's.
        wait_for(&mut wakes, ready(name)).await;
        let worker = scene.worker_for(&[name], &["a"]).await;
        let job = worker.claim_from(&[(name, 1)]).await.remove(0);
        worker.end(&job, outcome).await;
        wait_for(&mut wakes, ready(name)).await;
    }
}

pub(crate) async fn a_released_session_wakes_the_queues_of_its_jobs(scene: Scene<'_>) {
    let mut wakes = scene.wakes();
    scene.add(draft()).await;
    wait_for(&mut wakes, ready("q")).await;
    let worker = scene.worker().await;
    worker.claim_one().await;
    worker.release().await;
    wait_for(&mut wakes, ready("q")).await;
}

pub(crate) async fn a_promoted_job_wakes_its_queue(scene: Scene<'_>) {
    scene.add(draft().queue("r").after(HOUR)).await;
    scene.advance(HOUR).await;
    let mut wakes = scene.wakes();
    scene.promote_all().await;
    wait_for(&mut wakes, ready("r")).await;
}

pub(crate) async fn a_reclaimed_job_wakes_the_leader(scene: Scene<'_>) {
    let (_worker, _job) = scene.expired(draft()).await;
    let mut wakes = scene.wakes();
    scene.rescue().await;
    wait_for(&mut wakes, Wake::Due).await;
}

pub(crate) async fn a_forgiven_job_wakes_its_queue(scene: Scene<'_>) {
    let mut wakes = scene.wakes();
    let (_worker, _job) = scene.expired(draft()).await;
    wait_for(&mut wakes, ready("q")).await;
    let leader = scene.leading().await;
    leader.mark_lost().await;
    leader.forgive().await;
    wait_for(&mut wakes, ready("q")).await;
}

pub(crate) async fn a_request_to_cancel_wakes_the_worker(scene: Scene<'_>) {
    let mut wakes = scene.wakes();
    let (left, mine) = scene.running(draft()).await;
    let (right, theirs) = scene.running(draft()).await;
    scene.request_cancel(theirs.id).await;
    wait_for(&mut wakes, Wake::Cancel(right.id)).await;
    scene.request_cancel(mine.id).await;
    wait_for(&mut wakes, Wake::Cancel(left.id)).await;
}

pub(crate) async fn a_cancellation_by_match_wakes_the_workers(scene: Scene<'_>) {
    let (left, _mine) = scene.running(draft()).await;
    let (right, _theirs) = scene.running(draft()).await;
    let (mut first, mut second) = (scene.wakes(), scene.wakes());
    scene.store.cancel_matching(JobMatch::default(), 10, None, None).await.expect("valid");
    wait_for(&mut first, Wake::Cancel(left.id)).await;
    wait_for(&mut second, Wake::Cancel(right.id)).await;
}

pub(crate) async fn a_job_that_an_operator_retries_wakes_its_queue(scene: Scene<'_>) {
    let mut wakes = scene.wakes();
    let (worker, job) = scene.running(draft()).await;
    wait_for(&mut wakes, ready("q")).await;
    worker.end(&job, succeeded()).await;
    scene.retry(&[job.id]).await;
    wait_for(&mut wakes, ready("q")).await;
}

pub(crate) async fn a_queue_whose_mode_changes_is_woken(scene: Scene<'_>) {
    for mode in [QueueMode::RoundRobin, QueueMode::StrictFifo] {
        let mut wakes = scene.wakes();
        scene.operator().await.set_queue(queue("q"), mode, 100).await.expect("setting a mode succeeds");
        wait_for(&mut wakes, ready("q")).await;
    }
}

pub(crate) async fn a_resumed_queue_is_woken(scene: Scene<'_>) {
    let mut wakes = scene.wakes();
    scene.add(draft()).await;
    // The hint of the enqueue comes first, so the next one is the resumption's.
    wait_for(&mut wakes, ready("q")).await;
    scene.store.pause(of_queue("q")).await.expect("pausing succeeds");
    scene.store.resume(of_queue("q")).await.expect("resuming succeeds");
    wait_for(&mut wakes, ready("q")).await;
}

pub(crate) async fn a_resumed_actor_wakes_the_queues_of_its_jobs(scene: Scene<'_>) {
    let _worker = scene.worker_for(&["q", "r"], &["a"]).await;
    let (mut of_q, mut of_r) = (scene.wakes(), scene.wakes());
    scene.enqueue([draft(), draft().queue("r")]).await;
    wait_for(&mut of_q, ready("q")).await;
    wait_for(&mut of_r, ready("r")).await;
    scene.store.pause(of_actor("a")).await.expect("pausing succeeds");
    scene.store.resume(of_actor("a")).await.expect("resuming succeeds");
    wait_for(&mut of_q, ready("q")).await;
    wait_for(&mut of_r, ready("r")).await;
}

pub(crate) async fn a_quiet_enqueue_wakes_nobody(scene: Scene<'_>) {
    let mut wakes = scene.wakes();
    let quiet = || draft().with(|job| job.notify = Notify::None);
    scene.enqueue([quiet(), quiet().queue("p"), quiet().after(SOON), draft().queue("r")]).await;
    loop {
        match wakes.next().await.expect("the hints go on") {
            Wake::Ready(name) if name == queue("r") => break,
            wake => assert!(matches!(wake, Wake::Everything), "{wake:?} came of a quiet enqueue"),
        }
    }
}

pub(crate) async fn whoever_enqueued_can_wake_the_others_later(scene: Scene<'_>) {
    let mut wakes = scene.wakes();
    scene.enqueue([draft().with(|job| job.notify = Notify::None)]).await;
    scene.store.wake(vec![queue("q"), queue("r")], true).await.expect("waking succeeds");
    let mut expected = vec![ready("q"), ready("r"), Wake::Due];
    while !expected.is_empty() {
        let next = tokio::time::timeout(PATIENCE, wakes.next()).await;
        let wake = next.expect("every hint comes").expect("the hints go on");
        expected.retain(|other| *other != wake);
    }
}
