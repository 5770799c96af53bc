//! Completing: a success that a handler records itself, under the same fence as a settlement.

use std::time::Duration;

use taskq_core::model::{
    ClaimedJob, Epoch, JobId, Json, Outcome, RESULT_LIMIT, SettleReason, Settled, Status, WorkerId,
};
use taskq_core::store::StoreError;

use crate::draft::{draft, json, json_of_bytes};
use crate::scene::{HOUR, Scene};
use crate::worker::{LEASE, Worker, cancelled, failed, retry_after, succeeded};

use SettleReason::{Applied, Gone, Repeated, Stale};

async fn complete_as(
    scene: &Scene<'_>,
    worker: WorkerId,
    (id, epoch): (JobId, Epoch),
    result: Option<Json>,
) -> Settled {
    scene.store.complete(worker, id, epoch, result).await.expect("the completion is valid")
}

async fn complete(scene: &Scene<'_>, worker: &Worker<'_>, job: &ClaimedJob) -> SettleReason {
    complete_as(scene, worker.id, (job.id, job.epoch), None).await.reason
}

pub(crate) async fn a_completed_job_has_succeeded_with_its_result(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft().retry_every(Duration::ZERO)).await;
    worker.end(&job, failed()).await;
    let job = worker.claim_one().await;
    let result = Some(json(r#"{"sent": [1, 2], "to": "é"}"#));
    let completing = complete_as(&scene, worker.id, (job.id, job.epoch), result.clone());
    let (completed, when) = scene.during(completing).await;
    assert_eq!(completed, Settled { id: job.id, reason: Applied, status: Some(Status::Succeeded) });
    let ended = scene.job(job.id).await;
    when.assert_holds(ended.finished_at);
    assert_eq!((ended.status, ended.result, ended.error), (Status::Succeeded, result, None));
    assert_eq!((ended.worker, ended.epoch, ended.attempt), (Some(worker.id), Epoch(2), 2));
    assert!(worker.held().await.is_empty());
}

pub(crate) async fn a_completion_stores_a_result_if_there_is_one(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    assert_eq!(complete(&scene, &worker, &job).await, Applied);
    assert_eq!(scene.job(job.id).await.result, None);
    let (worker, job) = scene.running(draft()).await;
    complete_as(&scene, worker.id, (job.id, job.epoch), Some(json("null"))).await;
    assert_eq!(scene.job(job.id).await.result, Some(json("null")));
}

pub(crate) async fn a_success_settled_after_its_completion_is_repeated(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    complete_as(&scene, worker.id, (job.id, job.epoch), Some(json("1"))).await;
    let again = Outcome::Succeeded { result: Some(json("2")) };
    let settled = Settled { id: job.id, reason: Repeated, status: Some(Status::Succeeded) };
    assert_eq!(worker.settle(&job, again).await, settled);
    assert_eq!(scene.job(job.id).await.result, Some(json("1")), "the first one stands");
}

pub(crate) async fn another_outcome_settled_after_a_completion_is_stale(scene: Scene<'_>) {
    for outcome in [failed(), retry_after(HOUR), Outcome::Released, cancelled()] {
        let (worker, job) = scene.running(draft()).await;
        complete(&scene, &worker, &job).await;
        let ended = scene.job(job.id).await;
        assert_eq!(worker.settle(&job, outcome).await.reason, Stale);
        assert_eq!(scene.job(job.id).await, ended);
    }
}

pub(crate) async fn a_completion_may_be_repeated(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    let reasons = [complete(&scene, &worker, &job).await, complete(&scene, &worker, &job).await];
    assert_eq!(reasons, [Applied, Repeated]);
    scene.advance(LEASE).await;
    assert_eq!(complete(&scene, &worker, &job).await, Repeated, "after the lease too");

    let (worker, job) = scene.running(draft()).await;
    worker.end(&job, succeeded()).await;
    assert_eq!(complete(&scene, &worker, &job).await, Repeated, "of a settlement");
}

pub(crate) async fn a_completion_of_anything_but_the_running_attempt_is_stale(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft().retry_every(Duration::ZERO)).await;
    let stranger = scene.worker().await;
    let before = scene.job(job.id).await;
    let stale = Settled { id: job.id, reason: Stale, status: Some(Status::Running) };
    for other in [Epoch(0), Epoch(2)] {
        assert_eq!(complete_as(&scene, worker.id, (job.id, other), None).await, stale);
    }
    for other in [stranger.id, WorkerId::new()] {
        assert_eq!(complete_as(&scene, other, (job.id, job.epoch), None).await, stale);
    }
    assert_eq!(scene.job(job.id).await, before);

    worker.end(&job, failed()).await;
    assert_eq!(complete(&scene, &worker, &job).await, Stale, "it does not run");
    let again = worker.claim_one().await;
    assert_eq!(complete(&scene, &worker, &job).await, Stale, "a later attempt runs");
    assert_eq!(complete(&scene, &worker, &again).await, Applied);
    assert_eq!(complete(&scene, &worker, &job).await, Stale);
}

pub(crate) async fn a_completion_after_the_lease_is_stale_and_changes_nothing(scene: Scene<'_>) {
    let (worker, job) = scene.expired(draft()).await;
    let before = scene.job(job.id).await;
    assert_eq!(complete(&scene, &worker, &job).await, Stale);
    assert_eq!(scene.job(job.id).await, before);
}

pub(crate) async fn a_completion_of_a_job_that_is_not_there_is_gone(scene: Scene<'_>) {
    let worker = scene.worker().await;
    let id = JobId::new();
    let gone = Settled { id, reason: Gone, status: None };
    assert_eq!(complete_as(&scene, worker.id, (id, Epoch(1)), None).await, gone);
}

pub(crate) async fn a_job_to_be_cancelled_may_still_be_completed(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    scene.request_cancel(job.id).await;
    assert_eq!(complete(&scene, &worker, &job).await, Applied);
    assert_eq!(scene.status(job.id).await, Status::Succeeded);
    assert_eq!(worker.requests().await, [], "nobody is to be told any more");
}

pub(crate) async fn a_completed_job_is_not_rescued(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    complete(&scene, &worker, &job).await;
    scene.advance(LEASE).await;
    assert_eq!(scene.rescue().await, []);
    assert_eq!(scene.status(job.id).await, Status::Succeeded);
}

pub(crate) async fn a_result_beyond_its_bound_is_refused(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    let (least, most) = (Some(json_of_bytes(RESULT_LIMIT + 1)), Some(json_of_bytes(RESULT_LIMIT)));
    let refused = scene.store.complete(worker.id, job.id, job.epoch, least).await;
    assert!(matches!(refused, Err(StoreError::Invalid { index: None, .. })), "{refused:?}");
    assert_eq!(scene.status(job.id).await, Status::Running);
    assert_eq!(complete_as(&scene, worker.id, (job.id, job.epoch), most).await.reason, Applied);
}
