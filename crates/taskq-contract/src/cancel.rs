//! Cancelling jobs, before they start and while they run.

use std::time::Duration;

use taskq_core::model::{
    ClaimedJob, Epoch, ErrorRecord, JobId, JobRecord, MESSAGE_LIMIT, Outcome, OutcomeKind, SettleReason,
    Status,
};
use taskq_core::store::{CancelOutcome, Cancelled, Sweep};

use crate::draft::{draft, json};
use crate::scene::{HOUR, MINUTE, Scene, assert_invalid};
use crate::worker::{
    LEASE, Worker, abandoned, cancelled, error, failed, failed_for_good, of, retry_after, snoozed, succeeded,
};

/// The most ids of one call.
const IDS_LIMIT: usize = 10_000;

fn answer(id: JobId, outcome: CancelOutcome, status: Status) -> Cancelled {
    Cancelled { id, outcome, status: Some(status) }
}

fn ended(id: JobId) -> Cancelled {
    answer(id, CancelOutcome::Cancelled, Status::Cancelled)
}

fn requested(id: JobId) -> Cancelled {
    answer(id, CancelOutcome::Requested, Status::Running)
}

fn on_request() -> ErrorRecord {
    ErrorRecord::new("cancelled", "cancelled on request")
}

/// Every outcome that would otherwise let the job run again or end it as failed, and the error that it leaves.
fn outcomes_that_give_way() -> [(Outcome, Option<ErrorRecord>); 6] {
    [
        (failed(), Some(error("it broke"))),
        (failed_for_good(), Some(error("it broke for good"))),
        (retry_after(Duration::ZERO), Some(error("not yet"))),
        (snoozed(HOUR), None),
        (snoozed(Duration::ZERO), None),
        (Outcome::Released, None),
    ]
}

/// Every outcome that stands although a cancellation was asked for.
fn outcomes_that_stand() -> [(Outcome, Status, Option<ErrorRecord>); 4] {
    [
        (Outcome::Succeeded { result: Some(json("1")) }, Status::Succeeded, None),
        (cancelled(), Status::Cancelled, None),
        (Outcome::Cancelled { error: Some(error("gladly")) }, Status::Cancelled, Some(error("gladly"))),
        (abandoned(), Status::Abandoned, Some(error("it did not return"))),
    ]
}

/// Lets a job run whose cancellation was asked for.
async fn requested_to_end<'s>(scene: &'s Scene<'s>) -> (Worker<'s>, ClaimedJob) {
    let (worker, job) = scene.running(draft().retry_every(Duration::ZERO)).await;
    scene.request_cancel(job.id).await;
    (worker, job)
}

/// Asserts that nothing will run the job again.
async fn assert_over(scene: &Scene<'_>, id: JobId) {
    let before = (scene.job(id).await, scene.attempts(id).await);
    scene.advance(HOUR).await;
    scene.rescue().await;
    scene.promote_all().await;
    assert!(scene.worker().await.claim(10).await.is_empty());
    assert_eq!((scene.job(id).await, scene.attempts(id).await), before);
}

pub(crate) async fn a_job_that_has_not_started_ends_at_once(scene: Scene<'_>) {
    for job in [draft(), draft().after(MINUTE)] {
        let id = scene.add(job).await;
        let before = scene.job(id).await;
        let (answers, when) = scene.during(scene.cancel(&[id])).await;
        assert_eq!(answers, [ended(id)]);
        let after = scene.job(id).await;
        when.assert_holds(after.finished_at);
        assert_eq!((after.status, &after.error), (Status::Cancelled, &Some(on_request())));
        assert_eq!((after.worker, after.started_at, &after.result), (None, None, &None));
        assert_eq!((after.attempt, after.epoch), (0, Epoch(0)));
        assert_eq!(after.scheduled_at, before.scheduled_at);
        assert!(scene.attempts(id).await.is_empty());
        let leader = scene.leading().await;
        assert_eq!(leader.due_of(Sweep::Promote).await.due_in, None);
        leader.step_down().await;
        assert_over(&scene, id).await;
    }
}

pub(crate) async fn a_job_between_attempts_ends_at_once(scene: Scene<'_>) {
    let cases = [(failed(), OutcomeKind::Failed, 1), (snoozed(HOUR), OutcomeKind::Snoozed, 0)];
    for (outcome, kind, attempt) in cases {
        let (worker, job) = scene.running(draft().retry_every(HOUR)).await;
        worker.end(&job, outcome).await;
        assert_eq!(scene.cancel(&[job.id]).await, [ended(job.id)]);
        let after = scene.job(job.id).await;
        assert_eq!((after.status, after.error), (Status::Cancelled, Some(on_request())));
        assert_eq!((after.attempt, after.epoch, after.worker), (attempt, Epoch(1), None));
        assert_eq!(scene.told(job.id).await, [(1, 1, kind)]);
        assert_over(&scene, job.id).await;
    }
}

pub(crate) async fn the_reason_is_recorded(scene: Scene<'_>) {
    let ids = scene.add_all([draft(), draft().after(HOUR), draft(), draft()]).await;
    let reason = "the customer left, \"é\" and all";
    let answers = scene.store.cancel(ids[..2].to_vec(), Some(reason.to_owned())).await.expect("valid");
    assert_eq!(answers, [ended(ids[0]), ended(ids[1])]);
    for id in &ids[..2] {
        assert_eq!(scene.job(*id).await.error, Some(ErrorRecord::new("cancelled", reason)));
    }
    for (id, bytes) in [(ids[2], MESSAGE_LIMIT), (ids[3], MESSAGE_LIMIT + 1)] {
        scene.store.cancel(vec![id], Some("r".repeat(bytes))).await.expect("valid");
        let error = scene.job(id).await.error.expect("a reason");
        assert_eq!(error.message.len(), MESSAGE_LIMIT, "it is cut like any message");
    }
}

pub(crate) async fn a_running_job_runs_on_while_its_worker_is_told(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    let before = scene.job(job.id).await;
    assert_eq!(worker.requests().await, []);
    let answers = scene.store.cancel(vec![job.id], Some("why".to_owned())).await.expect("valid");
    assert_eq!(answers, [requested(job.id)]);
    let after = scene.job(job.id).await;
    assert!(!before.cancel_requested && after.cancel_requested);
    assert_eq!(JobRecord { cancel_requested: false, ..after }, before);
    assert_eq!(worker.requests().await, [(job.id, Epoch(1))]);
    assert_eq!(worker.held().await.len(), 1);
    worker.note(&job, "\"cleaning up\"").await.expect("alive");
    assert_eq!(scene.job(job.id).await.progress, Some(json("\"cleaning up\"")));
}

pub(crate) async fn a_request_is_told_at_every_beat_until_its_attempt_ends(scene: Scene<'_>) {
    let worker = scene.worker().await;
    scene.enqueue([draft(), draft(), draft()]).await;
    let jobs = worker.claim(3).await;
    let answers = scene.cancel(&[jobs[0].id, jobs[2].id]).await;
    assert_eq!(answers, [requested(jobs[0].id), requested(jobs[2].id)]);
    for _ in 0..3 {
        scene.advance(MINUTE).await;
        assert_eq!(worker.requests().await, [(jobs[0].id, Epoch(1)), (jobs[2].id, Epoch(1))]);
    }
    worker.end(&jobs[0], cancelled()).await;
    assert_eq!(worker.requests().await, [(jobs[2].id, Epoch(1))]);
    worker.end(&jobs[2], succeeded()).await;
    assert_eq!(worker.requests().await, []);
    worker.end(&jobs[1], succeeded()).await;
}

pub(crate) async fn a_beat_that_leads_is_told_too(scene: Scene<'_>) {
    let leader = scene.leading().await;
    scene.add(draft()).await;
    let job = leader.worker.claim_one().await;
    scene.request_cancel(job.id).await;
    let reply = leader.worker.try_lead().await.expect("alive");
    assert_eq!((reply.leadership, reply.cancel), (Some(leader.epoch), vec![(job.id, Epoch(1))]));
}

pub(crate) async fn each_worker_is_told_of_its_own_jobs(scene: Scene<'_>) {
    let (left, mine) = scene.running(draft()).await;
    let (right, theirs) = scene.running(draft()).await;
    let bystander = scene.worker().await;
    scene.request_cancel(theirs.id).await;
    assert_eq!(left.requests().await, []);
    assert_eq!(right.requests().await, [(theirs.id, Epoch(1))]);
    scene.request_cancel(mine.id).await;
    assert_eq!(left.requests().await, [(mine.id, Epoch(1))]);
    assert_eq!(bystander.requests().await, []);
}

pub(crate) async fn a_request_names_the_attempt_that_runs(scene: Scene<'_>) {
    let (worker, first) = scene.running(draft()).await;
    worker.end(&first, Outcome::Released).await;
    let second = worker.claim_one().await;
    scene.request_cancel(second.id).await;
    assert_eq!(worker.requests().await, [(second.id, Epoch(2))]);
    assert_eq!(worker.settle(&first, failed()).await.reason, SettleReason::Stale);
    assert_eq!(worker.requests().await, [(second.id, Epoch(2))]);
    assert_eq!(worker.end(&second, failed()).await, Status::Cancelled);
}

pub(crate) async fn who_asks_again_is_answered_alike(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    for _ in 0..3 {
        assert_eq!(scene.cancel(&[job.id]).await, [requested(job.id)]);
        assert_eq!(worker.requests().await, [(job.id, Epoch(1))], "one request");
    }
}

pub(crate) async fn a_job_that_has_ended_is_left_alone(scene: Scene<'_>) {
    for outcome in [succeeded(), failed_for_good(), cancelled(), abandoned()] {
        let (worker, job) = scene.running(draft()).await;
        let status = worker.end(&job, outcome).await;
        let before = scene.job(job.id).await;
        assert_eq!(scene.cancel(&[job.id]).await, [answer(job.id, CancelOutcome::Finished, status)]);
        assert_eq!(scene.job(job.id).await, before);
    }
    let (_worker, job) = scene.expired(draft().max_attempts(1)).await;
    scene.rescue().await;
    let finished = answer(job.id, CancelOutcome::Finished, Status::Crashed);
    assert_eq!(scene.cancel(&[job.id]).await, [finished]);
    let id = scene.add(draft()).await;
    scene.cancel(&[id]).await;
    let before = scene.job(id).await;
    let again = scene.store.cancel(vec![id], Some("again".to_owned())).await.expect("valid");
    assert_eq!(again, [answer(id, CancelOutcome::Finished, Status::Cancelled)]);
    assert_eq!(scene.job(id).await, before, "the first reason stands");
}

pub(crate) async fn answers_come_in_the_order_of_the_ids(scene: Scene<'_>) {
    assert_eq!(scene.cancel(&[]).await, []);
    let (worker, over) = scene.running(draft()).await;
    worker.end(&over, succeeded()).await;
    let (_worker, running) = scene.running(draft()).await;
    let ready = scene.add_all([draft(), draft()]).await;
    let missing = JobId::new();
    let asked = [ready[1], missing, running.id, ready[1], over.id, running.id, missing, ready[0]];
    let not_found = Cancelled { id: missing, outcome: CancelOutcome::NotFound, status: None };
    let expected = [
        ended(ready[1]),
        not_found,
        requested(running.id),
        answer(ready[1], CancelOutcome::Finished, Status::Cancelled),
        answer(over.id, CancelOutcome::Finished, Status::Succeeded),
        requested(running.id),
        not_found,
        ended(ready[0]),
    ];
    assert_eq!(scene.cancel(&asked).await, expected);
}

pub(crate) async fn too_many_ids_are_refused(scene: Scene<'_>) {
    let id = scene.add(draft()).await;
    let mut ids = vec![id; IDS_LIMIT + 1];
    assert_invalid(scene.store.cancel(ids.clone(), None).await, None);
    assert_eq!(scene.status(id).await, Status::Pending, "nothing was done");
    ids.pop();
    assert_eq!(scene.cancel(&ids).await.len(), IDS_LIMIT);
    assert_eq!(scene.status(id).await, Status::Cancelled);
}

pub(crate) async fn a_job_to_be_cancelled_is_not_tried_again(scene: Scene<'_>) {
    for (outcome, error) in outcomes_that_give_way() {
        let kind = outcome.kind();
        let (worker, job) = requested_to_end(&scene).await;
        let (status, when) = scene.during(worker.end(&job, outcome)).await;
        assert_eq!(status, Status::Cancelled, "{kind:?}");
        let after = scene.job(job.id).await;
        when.assert_holds(after.finished_at);
        assert_eq!(
            (after.status, &after.error, &after.result),
            (Status::Cancelled, &error, &None),
            "{kind:?}"
        );
        assert_eq!((after.worker, after.epoch, after.attempt), (Some(worker.id), Epoch(1), 1), "{kind:?}");
        assert_eq!(after.scheduled_at, job.scheduled_at, "{kind:?}");
        assert!(scene.attempts(job.id).await.is_empty(), "{kind:?}: the last attempt is on the job itself");
        assert_eq!(worker.requests().await, [], "{kind:?}");
        assert_over(&scene, job.id).await;
    }
}

pub(crate) async fn a_job_to_be_cancelled_keeps_its_last_error(scene: Scene<'_>) {
    for outcome in [snoozed(HOUR), Outcome::Released, cancelled()] {
        let kind = outcome.kind();
        let (worker, first) = scene.running(draft().retry_every(Duration::ZERO)).await;
        worker.end(&first, failed()).await;
        let job = worker.claim_one().await;
        scene.request_cancel(job.id).await;
        assert_eq!(worker.end(&job, outcome).await, Status::Cancelled);
        assert_eq!(scene.job(job.id).await.error, Some(error("it broke")), "{kind:?}");
        assert_eq!(scene.told(job.id).await, [(1, 1, OutcomeKind::Failed)]);
    }
}

pub(crate) async fn what_ends_a_job_anyway_stands(scene: Scene<'_>) {
    for (outcome, status, error) in outcomes_that_stand() {
        let kind = outcome.kind();
        let (worker, job) = requested_to_end(&scene).await;
        assert_eq!(worker.end(&job, outcome).await, status, "{kind:?}");
        let after = scene.job(job.id).await;
        assert_eq!((after.status, &after.error), (status, &error), "{kind:?}");
        assert_eq!(after.result, (status == Status::Succeeded).then(|| json("1")), "{kind:?}");
        assert_eq!(worker.requests().await, [], "{kind:?}");
        assert_over(&scene, job.id).await;
    }
}

pub(crate) async fn what_was_settled_after_a_request_may_be_repeated(scene: Scene<'_>) {
    let give_way = outcomes_that_give_way().map(|(outcome, _)| (outcome, Status::Cancelled));
    let stand = outcomes_that_stand().map(|(outcome, status, _)| (outcome, status));
    for (outcome, status) in give_way.into_iter().chain(stand) {
        let kind = outcome.kind();
        let (worker, job) = requested_to_end(&scene).await;
        let reasons = worker.settle_all([of(&job, outcome.clone()), of(&job, outcome.clone())]).await;
        assert_eq!(reasons, [SettleReason::Applied, SettleReason::Repeated], "{kind:?}");
        let before = scene.job(job.id).await;
        for wait in [MINUTE, LEASE] {
            scene.advance(wait).await;
            let settled = worker.settle(&job, outcome.clone()).await;
            assert_eq!((settled.reason, settled.status), (SettleReason::Repeated, Some(status)), "{kind:?}");
        }
        assert_eq!(scene.job(job.id).await, before, "{kind:?}");
        let other = scene.worker().await;
        assert_eq!(other.settle(&job, outcome).await.reason, SettleReason::Stale, "{kind:?}: not its own");
        if status == Status::Cancelled {
            assert_eq!(worker.settle(&job, succeeded()).await.reason, SettleReason::Stale, "{kind:?}");
            assert_eq!(worker.settle(&job, abandoned()).await.reason, SettleReason::Stale, "{kind:?}");
        }
    }
}

pub(crate) async fn a_lost_job_to_be_cancelled_ends_cancelled(scene: Scene<'_>) {
    for (forgive, max_attempts) in [(false, 20), (false, 1), (true, 20)] {
        let (worker, job) = scene.running(draft().max_attempts(max_attempts)).await;
        scene.request_cancel(job.id).await;
        scene.advance(LEASE).await;
        let leader = scene.leading().await;
        leader.mark_lost().await;
        let reclaim = async || if forgive { leader.forgive().await } else { leader.reclaim().await };
        let (reclaimed, when) = scene.during(reclaim()).await;
        assert_eq!((reclaimed[0].id, reclaimed[0].epoch), (job.id, Epoch(1)));
        assert_eq!((reclaimed[0].status, &reclaimed[0].problem), (Status::Cancelled, &None));
        leader.step_down().await;
        let after = scene.job(job.id).await;
        when.assert_holds(after.finished_at);
        assert_eq!((after.status, &after.error), (Status::Cancelled, &Some(worker.loss())));
        assert_eq!((after.worker, after.epoch, after.attempt), (Some(worker.id), Epoch(1), 1));
        assert!(scene.attempts(job.id).await.is_empty());
        assert_eq!(worker.settle(&job, succeeded()).await.reason, SettleReason::Stale);
        assert_eq!(worker.settle(&job, abandoned()).await.reason, SettleReason::Stale);
        assert_over(&scene, job.id).await;
    }
}

pub(crate) async fn a_released_session_ends_its_jobs_to_be_cancelled(scene: Scene<'_>) {
    let worker = scene.worker().await;
    scene.enqueue([draft(), draft()]).await;
    let jobs = worker.claim(2).await;
    scene.request_cancel(jobs[0].id).await;
    let (held, when) = scene.during(worker.release()).await;
    assert_eq!(held, 2);
    let after = scene.job(jobs[0].id).await;
    when.assert_holds(after.finished_at);
    assert_eq!((after.status, after.error, after.worker), (Status::Cancelled, None, Some(worker.id)));
    assert_eq!((after.attempt, after.epoch), (1, Epoch(1)));
    assert!(scene.attempts(jobs[0].id).await.is_empty());
    let other = scene.worker().await;
    assert_eq!(other.claim_ids(10).await, [jobs[1].id], "the others go back");
    assert_eq!(other.requests().await, []);
    assert_eq!(scene.told(jobs[1].id).await, [(1, 1, OutcomeKind::Released)]);
    let released = worker.settle(&jobs[0], Outcome::Released).await;
    assert_eq!(released.reason, SettleReason::Repeated, "that is what ended it");
}

pub(crate) async fn an_operators_retry_takes_a_request_back(scene: Scene<'_>) {
    for outcome in [failed(), Outcome::Released, succeeded(), cancelled(), abandoned()] {
        let kind = outcome.kind();
        let (worker, job) = requested_to_end(&scene).await;
        worker.end(&job, outcome).await;
        scene.retry(&[job.id]).await;
        let again = worker.claim_one().await;
        assert_eq!(again.id, job.id);
        assert_eq!(worker.requests().await, [], "{kind:?}");
        assert_eq!(worker.end(&again, failed()).await, Status::Pending, "{kind:?}: it is tried again");
        let again = worker.claim_one().await;
        scene.request_cancel(again.id).await;
        assert_eq!(worker.requests().await, [(again.id, Epoch(3))], "{kind:?}: a new request");
        assert_eq!(worker.end(&again, failed()).await, Status::Cancelled, "{kind:?}");
    }
}
