//! Settling: what each outcome records, and the fence.

use std::time::Duration;

use taskq_core::model::{
    CLASS_LIMIT, Epoch, ErrorRecord, JobId, MESSAGE_LIMIT, Outcome, OutcomeKind, RESULT_LIMIT, SettleReason,
    Settled, Settlement, Status, WorkerId,
};

use crate::draft::{Draft, draft, json, json_of_bytes};
use crate::scene::{HOUR, MINUTE, Scene, assert_invalid};
use crate::worker::{
    LEASE, abandoned, cancelled, error, failed, failed_for_good, of, retry_after, snoozed, succeeded,
};

use SettleReason::{Applied, Gone, Repeated, Stale};

/// Every outcome, by the status to which it brings a job with attempts left, and a retry every hour.
fn outcomes() -> [(Outcome, Status); 8] {
    [
        (succeeded(), Status::Succeeded),
        (failed(), Status::Scheduled),
        (failed_for_good(), Status::Failed),
        (retry_after(HOUR), Status::Scheduled),
        (snoozed(HOUR), Status::Scheduled),
        (Outcome::Released, Status::Pending),
        (cancelled(), Status::Cancelled),
        (abandoned(), Status::Abandoned),
    ]
}

fn hourly() -> Draft {
    draft().retry_every(HOUR)
}

pub(crate) async fn a_success_stores_its_result(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    let result = json(r#"{"sent": [1, 2], "to": "é"}"#);
    let before = scene.job(job.id).await;
    let outcome = Outcome::Succeeded { result: Some(result.clone()) };
    let (settled, when) = scene.during(worker.settle(&job, outcome)).await;
    assert_eq!(settled, Settled { id: job.id, reason: Applied, status: Some(Status::Succeeded) });
    let ended = scene.job(job.id).await;
    when.assert_holds(ended.finished_at);
    assert_eq!((ended.status, &ended.result, &ended.error), (Status::Succeeded, &Some(result), &None));
    assert_eq!((ended.worker, ended.epoch, ended.attempt), (Some(worker.id), Epoch(1), 1));
    assert_eq!((ended.started_at, ended.scheduled_at), (before.started_at, before.scheduled_at));
    assert!(scene.attempts(job.id).await.is_empty(), "the last attempt is on the job itself");
}

pub(crate) async fn a_success_without_a_result_stores_none(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    assert_eq!(worker.end(&job, succeeded()).await, Status::Succeeded);
    assert_eq!(scene.job(job.id).await.result, None);
}

pub(crate) async fn a_result_of_null_is_a_result(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    worker.end(&job, Outcome::Succeeded { result: Some(json("null")) }).await;
    assert_eq!(scene.job(job.id).await.result, Some(json("null")));
}

pub(crate) async fn a_success_clears_the_error_of_earlier_attempts(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft().retry_every(Duration::ZERO)).await;
    worker.end(&job, failed()).await;
    assert_eq!(scene.job(job.id).await.error, Some(error("it broke")));
    let again = worker.claim_one().await;
    worker.end(&again, succeeded()).await;
    assert_eq!(scene.job(job.id).await.error, None);
    assert_eq!(scene.attempts(job.id).await[0].error, Some(error("it broke")), "the attempt remembers it");
}

pub(crate) async fn a_final_failure_ends_the_job(scene: Scene<'_>) {
    let (worker, job) = scene.running(hourly()).await;
    let (status, when) = scene.during(worker.end(&job, failed_for_good())).await;
    assert_eq!(status, Status::Failed);
    let ended = scene.job(job.id).await;
    when.assert_holds(ended.finished_at);
    assert_eq!((ended.status, ended.error), (Status::Failed, Some(error("it broke for good"))));
    assert_eq!((ended.worker, ended.epoch, ended.attempt), (Some(worker.id), Epoch(1), 1));
    assert_eq!(ended.result, None);
    assert!(scene.attempts(job.id).await.is_empty());
}

pub(crate) async fn a_cancelled_job_ends_with_the_reason_if_there_is_one(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    let (status, when) = scene.during(worker.end(&job, cancelled())).await;
    assert_eq!(status, Status::Cancelled);
    let ended = scene.job(job.id).await;
    when.assert_holds(ended.finished_at);
    assert_eq!((ended.status, ended.error, ended.result), (Status::Cancelled, None, None));
    assert_eq!((ended.worker, ended.epoch, ended.attempt), (Some(worker.id), Epoch(1), 1));

    let id = scene.add(draft()).await;
    let job = worker.claim_one().await;
    worker.end(&job, Outcome::Cancelled { error: Some(error("not wanted")) }).await;
    assert_eq!(scene.job(id).await.error, Some(error("not wanted")));
}

pub(crate) async fn an_abandoned_job_is_never_tried_again(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft().retry_every(Duration::ZERO)).await;
    let (status, when) = scene.during(worker.end(&job, abandoned())).await;
    assert_eq!(status, Status::Abandoned);
    let ended = scene.job(job.id).await;
    when.assert_holds(ended.finished_at);
    assert_eq!((ended.status, &ended.result), (Status::Abandoned, &None));
    assert_eq!(ended.error.as_ref(), Some(&error("it did not return")));
    assert_eq!((ended.worker, ended.epoch, ended.attempt), (Some(worker.id), Epoch(1), 1));
    assert!(scene.attempts(job.id).await.is_empty(), "the last attempt is on the job itself");
    scene.advance(LEASE).await;
    assert_eq!(scene.rescue().await, []);
    scene.promote_all().await;
    assert!(scene.worker().await.claim(10).await.is_empty());
    assert_eq!(scene.job(job.id).await, ended);
}

pub(crate) async fn what_has_no_error_of_its_own_leaves_the_last_one(scene: Scene<'_>) {
    for outcome in [snoozed(HOUR), Outcome::Released, cancelled()] {
        let kind = outcome.kind();
        let (worker, job) = scene.running(draft().retry_every(Duration::ZERO)).await;
        worker.end(&job, failed()).await;
        let again = worker.claim_one().await;
        assert_eq!(scene.job(job.id).await.error, Some(error("it broke")), "it stays while the job runs");
        worker.end(&again, outcome).await;
        assert_eq!(scene.job(job.id).await.error, Some(error("it broke")), "{kind:?}");
        if let Some(ready) = worker.claim(1).await.first() {
            worker.end(ready, succeeded()).await;
        }
    }
}

pub(crate) async fn a_snoozed_job_waits_without_burning_an_attempt(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    let started_at = scene.job(job.id).await.started_at;
    scene.advance(MINUTE).await;
    let (status, when) = scene.during(worker.end(&job, snoozed(HOUR))).await;
    assert_eq!(status, Status::Scheduled);
    let waiting = scene.job(job.id).await;
    when.later(HOUR).assert_holds(waiting.scheduled_at);
    assert_eq!((waiting.attempt, waiting.epoch), (0, Epoch(1)));
    assert_eq!((waiting.worker, waiting.finished_at, waiting.error), (None, None, None));
    let attempts = scene.attempts(job.id).await;
    assert_eq!(attempts.len(), 1);
    assert_eq!((attempts[0].job_id, attempts[0].epoch, attempts[0].attempt), (job.id, Epoch(1), 1));
    assert_eq!((attempts[0].outcome, attempts[0].worker), (OutcomeKind::Snoozed, worker.id));
    assert_eq!((Some(attempts[0].started_at), &attempts[0].error), (started_at, &None));
    when.assert_holds(attempts[0].finished_at);
}

pub(crate) async fn a_snooze_of_zero_makes_the_job_ready(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    scene.advance(MINUTE).await;
    let (status, when) = scene.during(worker.end(&job, snoozed(Duration::ZERO))).await;
    assert_eq!(status, Status::Pending);
    when.assert_holds(scene.job(job.id).await.scheduled_at);
    assert_eq!(worker.claim_one().await.id, job.id);
}

pub(crate) async fn a_released_job_is_ready_as_it_was(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    scene.advance(MINUTE).await;
    let (status, when) = scene.during(worker.end(&job, Outcome::Released)).await;
    assert_eq!(status, Status::Pending);
    let ready = scene.job(job.id).await;
    assert_eq!(ready.scheduled_at, job.scheduled_at, "it keeps its place");
    assert_eq!((ready.attempt, ready.epoch), (0, Epoch(1)));
    assert_eq!((ready.worker, ready.finished_at), (None, None));
    let attempts = scene.attempts(job.id).await;
    assert_eq!(attempts.len(), 1);
    assert_eq!((attempts[0].attempt, attempts[0].outcome), (1, OutcomeKind::Released));
    when.assert_holds(attempts[0].finished_at);
    let again = worker.claim_one().await;
    assert_eq!((again.id, again.attempt, again.epoch), (job.id, 1, Epoch(2)));
}

pub(crate) async fn an_error_is_stored_as_long_as_it_may_be(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    let long = ErrorRecord::new(&"é".repeat(CLASS_LIMIT), &"\0\"\\é\n".repeat(MESSAGE_LIMIT))
        .with_backtrace(&"\u{1f980}".repeat(MESSAGE_LIMIT));
    let outcome = Outcome::Failed { error: long.clone(), delay: None, is_final: true };
    assert_eq!(worker.end(&job, outcome).await, Status::Failed);
    assert_eq!(scene.job(job.id).await.error, Some(long));
}

pub(crate) async fn another_epoch_is_stale_and_changes_nothing(scene: Scene<'_>) {
    let (worker, job) = scene.running(hourly()).await;
    let before = scene.job(job.id).await;
    for epoch in [Epoch(0), Epoch(2), Epoch(-1), Epoch(i64::MAX)] {
        for (outcome, _) in outcomes() {
            let kind = outcome.kind();
            let settlement = Settlement { id: job.id, epoch, outcome };
            let settled = worker.try_settle([settlement]).await.expect("stale is no error");
            let expected = Settled { id: job.id, reason: Stale, status: Some(Status::Running) };
            assert_eq!(settled, [expected], "{kind:?} of epoch {epoch}");
        }
    }
    assert_eq!(scene.job(job.id).await, before);
    assert!(scene.attempts(job.id).await.is_empty());
    assert_eq!(worker.end(&job, succeeded()).await, Status::Succeeded);
}

pub(crate) async fn another_worker_is_stale_and_changes_nothing(scene: Scene<'_>) {
    let (worker, job) = scene.running(hourly()).await;
    let other = scene.worker().await;
    let before = scene.job(job.id).await;
    for (outcome, _) in outcomes() {
        let settled = other.settle(&job, outcome).await;
        assert_eq!((settled.reason, settled.status), (Stale, Some(Status::Running)));
    }
    assert_eq!(scene.job(job.id).await, before);
    assert!(scene.attempts(job.id).await.is_empty());
    worker.end(&job, succeeded()).await;
    assert_eq!(other.settle(&job, succeeded()).await.reason, Stale, "the same outcome, but not its own");

    let (worker, job) = scene.running(hourly()).await;
    worker.end(&job, failed()).await;
    assert_eq!(other.settle(&job, failed()).await.reason, Stale, "the same outcome, but not its own");
}

pub(crate) async fn an_unknown_worker_is_stale(scene: Scene<'_>) {
    let (_worker, job) = scene.running(draft()).await;
    let settled = scene.store.settle(WorkerId::new(), vec![of(&job, succeeded())]).await;
    assert_eq!(settled.expect("stale is no error")[0].reason, Stale);
    assert_eq!(scene.status(job.id).await, Status::Running);
}

pub(crate) async fn after_its_lease_a_worker_is_stale_and_changes_nothing(scene: Scene<'_>) {
    let (worker, job) = scene.running(hourly()).await;
    let before = scene.job(job.id).await;
    scene.advance(LEASE).await;
    for (outcome, _) in outcomes() {
        let settled = worker.settle(&job, outcome).await;
        assert_eq!((settled.reason, settled.status), (Stale, Some(Status::Running)));
    }
    assert_eq!(scene.job(job.id).await, before);
    assert!(scene.attempts(job.id).await.is_empty());
}

pub(crate) async fn a_job_that_does_not_run_is_stale(scene: Scene<'_>) {
    let worker = scene.worker().await;
    let id = scene.add(draft()).await;
    let before = scene.job(id).await;
    let settlement = Settlement { id, epoch: Epoch(0), outcome: succeeded() };
    let settled = worker.try_settle([settlement]).await.expect("stale is no error");
    assert_eq!(settled, [Settled { id, reason: Stale, status: Some(Status::Pending) }]);
    assert_eq!(scene.job(id).await, before);
}

pub(crate) async fn an_earlier_attempt_is_stale_while_a_later_one_runs(scene: Scene<'_>) {
    let (worker, first) = scene.running(draft()).await;
    worker.end(&first, Outcome::Released).await;
    let second = worker.claim_one().await;
    assert_eq!((second.id, second.attempt), (first.id, first.attempt), "the number was given back");
    let before = scene.job(first.id).await;
    for outcome in [succeeded(), failed_for_good(), snoozed(HOUR), cancelled(), abandoned()] {
        let settled = worker.settle(&first, outcome).await;
        assert_eq!((settled.reason, settled.status), (Stale, Some(Status::Running)));
    }
    assert_eq!(scene.job(first.id).await, before);
    assert_eq!(worker.end(&second, succeeded()).await, Status::Succeeded);
}

pub(crate) async fn a_job_that_is_not_there_is_gone(scene: Scene<'_>) {
    let worker = scene.worker().await;
    let id = JobId::new();
    for (outcome, _) in outcomes() {
        let settlement = Settlement { id, epoch: Epoch(1), outcome };
        let settled = worker.try_settle([settlement]).await.expect("gone is no error");
        assert_eq!(settled, [Settled { id, reason: Gone, status: None }]);
    }
}

pub(crate) async fn every_outcome_may_be_repeated(scene: Scene<'_>) {
    for (outcome, status) in outcomes() {
        let kind = outcome.kind();
        let (worker, job) = scene.running(hourly()).await;
        assert_eq!(worker.end(&job, outcome.clone()).await, status, "{kind:?}");
        let (before, attempts) = (scene.job(job.id).await, scene.attempts(job.id).await);
        scene.advance(MINUTE).await;
        for _ in 0..2 {
            let settled = worker.settle(&job, outcome.clone()).await;
            assert_eq!((settled.reason, settled.status), (Repeated, Some(status)), "{kind:?}");
        }
        assert_eq!(scene.job(job.id).await, before, "{kind:?} changes nothing the second time");
        assert_eq!(scene.attempts(job.id).await, attempts);
        // Leave nothing ready for the next round.
        if status == Status::Pending {
            worker.end(&worker.claim_one().await, succeeded()).await;
        }
    }
}

pub(crate) async fn an_outcome_may_be_repeated_after_the_lease(scene: Scene<'_>) {
    for (outcome, status) in outcomes() {
        let kind = outcome.kind();
        let (worker, job) = scene.running(hourly()).await;
        worker.end(&job, outcome.clone()).await;
        scene.advance(LEASE).await;
        let settled = worker.settle(&job, outcome).await;
        assert_eq!((settled.reason, settled.status), (Repeated, Some(status)), "{kind:?}");
        if status == Status::Pending {
            let other = scene.worker().await;
            other.end(&other.claim_one().await, succeeded()).await;
        }
    }
}

pub(crate) async fn an_outcome_may_be_repeated_while_a_later_attempt_runs(scene: Scene<'_>) {
    for outcome in [failed(), retry_after(Duration::ZERO), snoozed(Duration::ZERO), Outcome::Released] {
        let kind = outcome.kind();
        let (worker, first) = scene.running(draft().retry_every(Duration::ZERO)).await;
        worker.end(&first, outcome.clone()).await;
        let second = worker.claim_one().await;
        assert_eq!(second.id, first.id);
        let settled = worker.settle(&first, outcome).await;
        assert_eq!((settled.reason, settled.status), (Repeated, Some(Status::Running)), "{kind:?}");
        worker.end(&second, succeeded()).await;
    }
}

pub(crate) async fn a_second_outcome_of_another_kind_is_stale(scene: Scene<'_>) {
    for (first, status) in outcomes() {
        let (worker, job) = scene.running(hourly()).await;
        worker.end(&job, first.clone()).await;
        let before = scene.job(job.id).await;
        for (second, _) in outcomes() {
            if second.kind() != first.kind() {
                let settled = worker.settle(&job, second.clone()).await;
                let met = (settled.reason, settled.status);
                assert_eq!(met, (Stale, Some(status)), "{:?} after {:?}", second.kind(), first.kind());
            }
        }
        assert_eq!(scene.job(job.id).await, before);
        if status == Status::Pending {
            worker.end(&worker.claim_one().await, succeeded()).await;
        }
    }
}

pub(crate) async fn an_attempt_twice_in_a_call_counts_once(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    let result = |text| Outcome::Succeeded { result: Some(json(text)) };
    let reasons = worker.settle_all([of(&job, result("1")), of(&job, result("2")), of(&job, failed())]).await;
    assert_eq!(reasons, [Applied, Repeated, Stale]);
    assert_eq!(scene.job(job.id).await.result, Some(json("1")), "the first one stands");

    let (worker, job) = scene.running(hourly()).await;
    let reasons = worker.settle_all([of(&job, failed()), of(&job, succeeded()), of(&job, failed())]).await;
    assert_eq!(reasons, [Applied, Stale, Repeated]);
    assert_eq!(scene.status(job.id).await, Status::Scheduled);
    assert_eq!(scene.attempts(job.id).await.len(), 1);
}

pub(crate) async fn answers_come_in_the_order_of_the_settlements(scene: Scene<'_>) {
    let worker = scene.worker().await;
    scene.enqueue((0..4).map(|_| hourly())).await;
    let jobs = worker.claim(4).await;
    worker.end(&jobs[3], succeeded()).await;
    let missing = JobId::new();
    let settlements = vec![
        of(&jobs[2], snoozed(HOUR)),
        Settlement { id: missing, epoch: Epoch(1), outcome: succeeded() },
        of(&jobs[3], succeeded()),
        Settlement { id: jobs[0].id, epoch: Epoch(7), outcome: succeeded() },
        of(&jobs[1], failed_for_good()),
        of(&jobs[0], succeeded()),
    ];
    let settled = worker.try_settle(settlements).await.expect("valid");
    let answer = |id, reason, status| Settled { id, reason, status };
    let expected = [
        answer(jobs[2].id, Applied, Some(Status::Scheduled)),
        answer(missing, Gone, None),
        answer(jobs[3].id, Repeated, Some(Status::Succeeded)),
        // A stale element is judged before or after its neighbours: only its reason is promised.
        answer(jobs[0].id, Stale, settled[3].status),
        answer(jobs[1].id, Applied, Some(Status::Failed)),
        answer(jobs[0].id, Applied, Some(Status::Succeeded)),
    ];
    assert_eq!(settled, expected);
}

pub(crate) async fn many_attempts_settle_in_one_call(scene: Scene<'_>) {
    let worker = scene.worker().await;
    scene.enqueue((0..500).map(|_| hourly())).await;
    let jobs = worker.claim(500).await;
    let given = outcomes();
    let outcome = |index: usize| given[index % given.len()].clone();
    let settlements = jobs.iter().enumerate().map(|(index, job)| of(job, outcome(index).0));
    let settled = worker.try_settle(settlements).await.expect("valid");
    for (index, (job, settled)) in jobs.iter().zip(&settled).enumerate() {
        let expected = Settled { id: job.id, reason: Applied, status: Some(outcome(index).1) };
        assert_eq!(*settled, expected);
    }
    assert_eq!(settled.len(), 500);
    assert!(worker.held().await.is_empty());
}

pub(crate) async fn no_settlements_are_no_error(scene: Scene<'_>) {
    assert!(scene.worker().await.settle_all([]).await.is_empty());
}

pub(crate) async fn a_settlement_leaves_the_other_jobs_alone(scene: Scene<'_>) {
    let worker = scene.worker().await;
    scene.enqueue([hourly(), hourly()]).await;
    let jobs = worker.claim(2).await;
    let before = scene.job(jobs[1].id).await;
    for (outcome, _) in outcomes() {
        worker.settle(&jobs[0], outcome).await;
    }
    assert_eq!(scene.job(jobs[1].id).await, before);
}

pub(crate) async fn one_malformed_settlement_refuses_the_call_and_is_named(scene: Scene<'_>) {
    let worker = scene.worker().await;
    scene.enqueue([hourly(), hourly()]).await;
    let jobs = worker.claim(2).await;
    let huge = Duration::from_hours(24 * 36_600) + Duration::from_secs(1);
    let bad = [
        ("snooze", snoozed(huge)),
        ("snooze beyond any time", snoozed(Duration::MAX)),
        ("retry", retry_after(huge)),
        ("result", Outcome::Succeeded { result: Some(json_of_bytes(RESULT_LIMIT + 1)) }),
    ];
    for (what, outcome) in bad {
        let answer = worker.try_settle([of(&jobs[0], succeeded()), of(&jobs[1], outcome)]).await;
        assert!(answer.is_err(), "{what} is refused");
        assert_invalid(answer, Some(1));
        for job in &jobs {
            assert_eq!(scene.status(job.id).await, Status::Running, "{what}: nothing is settled");
        }
    }
    let longest = Duration::from_hours(24 * 36_600);
    assert_eq!(worker.end(&jobs[0], snoozed(longest)).await, Status::Scheduled);
    let largest = Outcome::Succeeded { result: Some(json_of_bytes(RESULT_LIMIT)) };
    assert_eq!(worker.end(&jobs[1], largest).await, Status::Succeeded);
}
