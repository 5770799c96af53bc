//! Jobs of which nothing is kept once they have succeeded.

use std::time::Duration;

use taskq_core::model::{
    EnqueueOutcome, Enqueued, IdempotencyKey, JobId, Keep, Outcome, SettleReason, Settled, Status,
};

use crate::draft::{Draft, draft, json};
use crate::scene::{HOUR, Scene};
use crate::worker::{LEASE, abandoned, cancelled, failed, failed_for_good, of, snoozed, succeeded};

use SettleReason::{Applied, Gone, Repeated, Stale};

fn unkept() -> Draft {
    draft().with(|job| job.keep = Keep::None)
}

async fn is_gone(scene: &Scene<'_>, id: JobId) -> bool {
    let is_nowhere = scene.store.job(id).await.expect("reading succeeds").is_none();
    is_nowhere
        && scene.attempts(id).await.is_empty()
        && scene.store.endings(vec![id]).await.expect("it is").is_empty()
}

pub(crate) async fn what_is_kept_is_told(scene: Scene<'_>) {
    let (plain, unkept) = (scene.add(draft()).await, scene.add(unkept()).await);
    assert_eq!((scene.job(plain).await.keep, scene.job(unkept).await.keep), (Keep::All, Keep::None));
}

pub(crate) async fn a_success_is_deleted_with_its_settlement(scene: Scene<'_>) {
    for outcome in [succeeded(), Outcome::Succeeded { result: Some(json("1")) }] {
        let (worker, job) = scene.running(unkept()).await;
        let applied = Settled { id: job.id, reason: Applied, status: Some(Status::Succeeded) };
        assert_eq!(worker.settle(&job, outcome).await, applied);
        assert!(is_gone(&scene, job.id).await);
        assert!(worker.held().await.is_empty());
    }
}

pub(crate) async fn a_success_takes_its_earlier_attempts_along(scene: Scene<'_>) {
    let (worker, job) = scene.running(unkept().retry_every(Duration::ZERO)).await;
    worker.end(&job, failed()).await;
    assert_eq!(scene.attempts(job.id).await.len(), 1);
    let again = worker.claim_one().await;
    worker.end(&again, succeeded()).await;
    assert!(is_gone(&scene, job.id).await);
}

pub(crate) async fn every_other_end_is_kept(scene: Scene<'_>) {
    for (outcome, status) in [
        (failed_for_good(), Status::Failed),
        (cancelled(), Status::Cancelled),
        (abandoned(), Status::Abandoned),
        (snoozed(HOUR), Status::Scheduled),
        (Outcome::Released, Status::Pending),
    ] {
        let (worker, job) = scene.running(unkept()).await;
        assert_eq!(worker.end(&job, outcome).await, status);
        assert_eq!(scene.status(job.id).await, status);
        scene.cancel(&[job.id]).await;
    }
    let id = scene.add(unkept()).await;
    scene.cancel(&[id]).await;
    assert_eq!(scene.status(id).await, Status::Cancelled);
}

pub(crate) async fn a_repeated_success_finds_its_job_gone(scene: Scene<'_>) {
    let (worker, job) = scene.running(unkept()).await;
    worker.end(&job, succeeded()).await;
    for outcome in [succeeded(), failed()] {
        assert_eq!(worker.settle(&job, outcome).await, Settled { id: job.id, reason: Gone, status: None });
    }
}

pub(crate) async fn a_success_twice_in_a_call_counts_once(scene: Scene<'_>) {
    let (worker, job) = scene.running(unkept()).await;
    let reasons = worker.settle_all([of(&job, succeeded()), of(&job, succeeded()), of(&job, failed())]).await;
    assert_eq!(reasons, [Applied, Repeated, Stale]);
    assert!(is_gone(&scene, job.id).await);
    let (worker, job) = scene.running(unkept()).await;
    let told = Outcome::Succeeded { result: Some(json("1")) };
    let reasons = worker.settle_all([of(&job, told.clone()), of(&job, told)]).await;
    assert_eq!(reasons, [Applied, Repeated]);
}

pub(crate) async fn jobs_that_are_kept_and_others_settle_in_one_call(scene: Scene<'_>) {
    let worker = scene.worker().await;
    let kept = scene.add_all([draft(), draft()]).await;
    let unkept = scene.add_all([unkept(), unkept()]).await;
    let jobs = worker.claim(10).await;
    assert_eq!(worker.settle_all(jobs.iter().map(|job| of(job, succeeded()))).await, [Applied; 4]);
    for id in kept {
        assert_eq!(scene.status(id).await, Status::Succeeded);
    }
    for id in unkept {
        assert!(is_gone(&scene, id).await);
    }
}

pub(crate) async fn many_successes_are_deleted_by_one_call(scene: Scene<'_>) {
    let worker = scene.worker().await;
    let ids = scene.add_all((0..50).map(|_| unkept())).await;
    let jobs = worker.claim(50).await;
    let reasons = worker.settle_all(jobs.iter().map(|job| of(job, succeeded()))).await;
    assert!(reasons.len() == 50 && reasons.iter().all(|reason| *reason == Applied));
    for id in ids {
        assert!(is_gone(&scene, id).await);
    }
}

pub(crate) async fn what_does_not_hold_its_fence_deletes_nothing(scene: Scene<'_>) {
    let worker = scene.worker().await;
    scene.add_all([unkept(), unkept()]).await;
    let jobs = worker.claim(2).await;
    let mut wrong = of(&jobs[1], succeeded());
    wrong.epoch.0 += 1;
    assert_eq!(worker.settle_all([of(&jobs[0], succeeded()), wrong]).await, [Applied, Stale]);
    assert!(is_gone(&scene, jobs[0].id).await);
    assert_eq!(scene.status(jobs[1].id).await, Status::Running);

    let (worker, job) = (scene.worker().await, &jobs[1]);
    assert_eq!(worker.settle(job, succeeded()).await.reason, Stale, "another worker's");
    scene.advance(LEASE).await;
    assert_eq!(worker.settle(job, succeeded()).await.reason, Stale, "after the lease");
    assert_eq!(scene.status(job.id).await, Status::Running);
}

pub(crate) async fn a_job_to_be_cancelled_is_deleted_if_it_succeeds(scene: Scene<'_>) {
    let (worker, job) = scene.running(unkept()).await;
    scene.request_cancel(job.id).await;
    worker.end(&job, succeeded()).await;
    assert!(is_gone(&scene, job.id).await);
    assert_eq!(worker.requests().await, []);
}

pub(crate) async fn a_completion_deletes_as_well(scene: Scene<'_>) {
    let (worker, job) = scene.running(unkept()).await;
    let completed =
        scene.store.complete(worker.id, job.id, job.epoch, Some(json("1"))).await.expect("it is valid");
    assert_eq!(completed, Settled { id: job.id, reason: Applied, status: Some(Status::Succeeded) });
    assert!(is_gone(&scene, job.id).await);
    assert_eq!(worker.settle(&job, succeeded()).await.reason, Gone);
}

pub(crate) async fn the_key_of_a_job_that_is_gone_still_stands(scene: Scene<'_>) {
    let key = IdempotencyKey::new("k").expect("a valid key");
    let keyed = || unkept().with(|job| job.idempotency_key = Some(key.clone()));
    let (worker, job) = scene.running(keyed()).await;
    worker.end(&job, succeeded()).await;
    let existing = Enqueued { id: job.id, outcome: EnqueueOutcome::Existing, status: None };
    assert_eq!(scene.enqueue([keyed()]).await, [existing]);
}
