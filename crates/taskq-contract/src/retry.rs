//! What follows a failed attempt.

use std::time::Duration;

use taskq_core::model::{Epoch, Outcome, OutcomeKind, RetryPolicy, Status};

use crate::draft::{Draft, draft};
use crate::scene::{HOUR, MINUTE, Scene};
use crate::worker::{error, failed, failed_for_good, of, retry_after, snoozed, succeeded};

pub(crate) async fn a_failed_attempt_is_tried_again_by_its_policy(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft().retry_every(HOUR)).await;
    let started_at = scene.job(job.id).await.started_at;
    scene.advance(MINUTE).await;
    let (status, when) = scene.during(worker.end(&job, failed())).await;
    assert_eq!(status, Status::Scheduled);
    let waiting = scene.job(job.id).await;
    when.later(HOUR).assert_holds(waiting.scheduled_at);
    assert_eq!((waiting.attempt, waiting.epoch), (1, Epoch(1)), "the attempt is burnt");
    assert_eq!((waiting.worker, waiting.finished_at), (None, None));
    assert_eq!(waiting.error, Some(error("it broke")));
    let attempts = scene.attempts(job.id).await;
    assert_eq!(attempts.len(), 1);
    assert_eq!((attempts[0].job_id, attempts[0].epoch, attempts[0].attempt), (job.id, Epoch(1), 1));
    assert_eq!((attempts[0].outcome, attempts[0].worker), (OutcomeKind::Failed, worker.id));
    assert_eq!(Some(attempts[0].started_at), started_at);
    assert_eq!(attempts[0].error, Some(error("it broke")));
    when.assert_holds(attempts[0].finished_at);
}

pub(crate) async fn the_delay_grows_up_to_its_cap(scene: Scene<'_>) {
    let policy = RetryPolicy { base: HOUR, factor: 3.0, cap: 5 * HOUR, jitter: 0.0 };
    let id = scene.add(draft().policy(policy)).await;
    for delay in [HOUR, 3 * HOUR, 5 * HOUR, 5 * HOUR] {
        let worker = scene.worker().await;
        let job = worker.claim_one().await;
        let (status, when) = scene.during(worker.end(&job, failed())).await;
        assert_eq!(status, Status::Scheduled);
        when.later(delay).assert_holds(scene.job(id).await.scheduled_at);
        worker.release().await;
        scene.advance(delay).await;
        scene.promote_all().await;
    }
}

pub(crate) async fn jitter_spreads_the_delay_within_its_bounds(scene: Scene<'_>) {
    let policy = RetryPolicy { base: 10 * HOUR, factor: 1.0, cap: 20 * HOUR, jitter: 0.2 };
    let (least, most) = (8 * HOUR, 12 * HOUR);
    let (spread, when) = scene.during(delays_after_failure(&scene, policy)).await;
    for at in &spread {
        when.later_by(least, most).assert_holds(*at);
    }
    let width = spread.iter().max().zip(spread.iter().min()).map(|(last, first)| last.duration_since(*first));
    assert!(width.expect("there are some").as_secs() > 60, "the delays differ: {spread:?}");
}

pub(crate) async fn jitter_never_exceeds_the_cap(scene: Scene<'_>) {
    let policy = RetryPolicy { base: 10 * HOUR, factor: 1.0, cap: 10 * HOUR, jitter: 1.0 };
    let (spread, when) = scene.during(delays_after_failure(&scene, policy)).await;
    for at in spread {
        when.later_by(Duration::ZERO, 10 * HOUR).assert_holds(at);
    }
}

/// Lets 40 jobs fail at once and reads when they run again.
async fn delays_after_failure(scene: &Scene<'_>, policy: RetryPolicy) -> Vec<jiff::Timestamp> {
    let worker = scene.worker().await;
    scene.enqueue((0..40).map(|_| draft().policy(policy))).await;
    let jobs = worker.claim(40).await;
    worker.settle_all(jobs.iter().map(|job| of(job, failed()))).await;
    let mut times = Vec::new();
    for job in jobs {
        times.push(scene.job(job.id).await.scheduled_at);
    }
    times
}

pub(crate) async fn a_job_without_a_policy_has_the_default_one(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    let (status, when) = scene.during(worker.end(&job, failed())).await;
    assert_eq!(status, Status::Scheduled);
    let (least, most) = (Duration::from_secs(4), Duration::from_secs(6));
    when.later_by(least, most).assert_holds(scene.job(job.id).await.scheduled_at);
}

pub(crate) async fn a_retry_without_delay_is_ready_at_once(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft().retry_every(Duration::ZERO)).await;
    scene.advance(MINUTE).await;
    let (status, when) = scene.during(worker.end(&job, failed())).await;
    assert_eq!(status, Status::Pending);
    when.assert_holds(scene.job(job.id).await.scheduled_at);
    let second = worker.claim_one().await;
    assert_eq!((second.attempt, second.epoch), (2, Epoch(2)));
}

pub(crate) async fn retry_after_has_its_own_delay_and_burns_no_attempt(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft().max_attempts(1).retry_every(MINUTE)).await;
    let (status, when) = scene.during(worker.end(&job, retry_after(HOUR))).await;
    assert_eq!(status, Status::Scheduled, "no budget is spent");
    let waiting = scene.job(job.id).await;
    when.later(HOUR).assert_holds(waiting.scheduled_at);
    assert_eq!((waiting.attempt, waiting.epoch, waiting.worker), (0, Epoch(1), None));
    assert_eq!(waiting.error, Some(error("not yet")));
    assert_eq!(scene.told(job.id).await, [(1, 1, OutcomeKind::Failed)]);
}

pub(crate) async fn retry_after_zero_is_ready_at_once(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    assert_eq!(worker.end(&job, retry_after(Duration::ZERO)).await, Status::Pending);
    let second = worker.claim_one().await;
    assert_eq!((second.attempt, second.epoch), (1, Epoch(2)));
}

pub(crate) async fn a_spent_budget_ends_the_job(scene: Scene<'_>) {
    let (worker, first) = scene.running(draft().max_attempts(2).retry_every(Duration::ZERO)).await;
    assert_eq!(worker.end(&first, failed()).await, Status::Pending);
    let second = worker.claim_one().await;
    assert_eq!(second.attempt, 2);
    let last = Outcome::Failed { error: error("again"), delay: None, is_final: false };
    let (status, when) = scene.during(worker.end(&second, last)).await;
    assert_eq!(status, Status::Failed);
    let ended = scene.job(first.id).await;
    when.assert_holds(ended.finished_at);
    assert_eq!((ended.attempt, ended.epoch, ended.worker), (2, Epoch(2), Some(worker.id)));
    assert_eq!(ended.error, Some(error("again")));
    assert_eq!(scene.told(first.id).await, [(1, 1, OutcomeKind::Failed)], "the last one is on the job");
    assert!(worker.claim(1).await.is_empty());
}

pub(crate) async fn a_single_attempt_leaves_nothing_to_retry(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft().max_attempts(1)).await;
    assert_eq!(worker.end(&job, failed()).await, Status::Failed);
}

pub(crate) async fn what_burns_no_attempt_never_spends_the_budget(scene: Scene<'_>) {
    let (worker, mut job) = scene.running(draft().max_attempts(1)).await;
    let free = [snoozed(Duration::ZERO), Outcome::Released, retry_after(Duration::ZERO)];
    let mut expected = Vec::new();
    for (round, outcome) in (1..).zip(free.iter().cycle().take(9)) {
        assert_eq!((job.attempt, job.epoch), (1, Epoch(round)));
        assert_eq!(worker.end(&job, outcome.clone()).await, Status::Pending);
        expected.push((round, 1, outcome.kind()));
        job = worker.claim_one().await;
    }
    assert_eq!(scene.told(job.id).await, expected, "each left a record, the oldest first");
    assert_eq!(worker.end(&job, failed()).await, Status::Failed);
    assert_eq!(scene.job(job.id).await.epoch, Epoch(10));
}

pub(crate) async fn a_final_failure_ignores_attempts_and_delays(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    assert_eq!(worker.end(&job, failed_for_good()).await, Status::Failed);

    let (worker, job) = scene.running(draft()).await;
    let outcome = Outcome::Failed { error: error("no"), delay: Some(MINUTE), is_final: true };
    assert_eq!(worker.end(&job, outcome).await, Status::Failed);
    assert!(scene.attempts(job.id).await.is_empty());
}

pub(crate) async fn a_retry_behind_the_deadline_is_not_made(scene: Scene<'_>) {
    let due_in = async |delay| draft().retry_every(HOUR).deadline(scene.now().await + delay);
    let early: Draft = due_in(HOUR / 2).await;
    let late: Draft = due_in(2 * HOUR).await;

    let (worker, job) = scene.running(early).await;
    assert_eq!(worker.end(&job, failed()).await, Status::Failed);
    let ended = scene.job(job.id).await;
    assert_eq!((ended.attempt, ended.error), (1, Some(error("it broke"))), "the attempt's own error stays");
    assert!(ended.finished_at.is_some());
    assert!(scene.attempts(job.id).await.is_empty());

    let (worker, job) = scene.running(late).await;
    assert_eq!(worker.end(&job, failed()).await, Status::Scheduled);
}

pub(crate) async fn retry_after_the_deadline_is_not_made(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft().deadline(scene.now().await + HOUR)).await;
    assert_eq!(worker.end(&job, retry_after(HOUR)).await, Status::Failed);
    let ended = scene.job(job.id).await;
    assert_eq!((ended.attempt, ended.error), (1, Some(error("not yet"))));
    assert_eq!(ended.worker, Some(worker.id));
}

pub(crate) async fn a_retry_after_the_deadline_passed_is_not_made(scene: Scene<'_>) {
    let deadline = scene.now().await + MINUTE;
    let (worker, job) = scene.running(draft().retry_every(Duration::ZERO).deadline(deadline)).await;
    scene.advance(MINUTE).await;
    assert_eq!(worker.end(&job, failed()).await, Status::Failed, "even without a delay");
}

pub(crate) async fn an_attempt_may_succeed_after_the_deadline(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft().deadline(scene.now().await + MINUTE)).await;
    scene.advance(2 * MINUTE).await;
    assert_eq!(worker.end(&job, succeeded()).await, Status::Succeeded);
}
