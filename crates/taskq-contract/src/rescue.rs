//! What becomes of the jobs of a worker whose lease has ended.

use std::time::Duration;

use taskq_core::model::{
    ClaimedJob, Epoch, JobId, Outcome, OutcomeKind, RetryPolicy, SettleReason, Status, WorkerId,
};
use taskq_core::store::{
    Count, LeaderEpoch, OutageSpan, ReclaimOptions, Reclaimed, Sweep, SweepCall, WorkerState,
};

use crate::draft::draft;
use crate::scene::{DAY, HOUR, MINUTE, Scene, assert_invalid, assert_lease_lost, assert_not_leader};
use crate::worker::{
    LEADER_LEASE, LEASE, Worker, abandoned, cancelled, failed, failed_for_good, snoozed, succeeded,
};

const SECOND: Duration = Duration::from_secs(1);

fn moved(job: &ClaimedJob, status: Status) -> Reclaimed {
    Reclaimed { id: job.id, epoch: job.epoch, status, problem: None }
}

fn every_outcome() -> [Outcome; 7] {
    [succeeded(), failed(), failed_for_good(), snoozed(HOUR), Outcome::Released, cancelled(), abandoned()]
}

/// Asserts that the worker can no longer settle the job, and changes nothing by trying.
async fn assert_stale(scene: &Scene<'_>, worker: &Worker<'_>, job: &ClaimedJob) {
    let before = (scene.job(job.id).await, scene.attempts(job.id).await);
    for outcome in every_outcome() {
        let kind = outcome.kind();
        let settled = worker.settle(job, outcome).await;
        assert_eq!(
            (settled.reason, settled.status),
            (SettleReason::Stale, Some(before.0.status)),
            "{kind:?}"
        );
    }
    assert_eq!((scene.job(job.id).await, scene.attempts(job.id).await), before);
}

pub(crate) async fn only_the_leader_rescues(scene: Scene<'_>) {
    let (_worker, job) = scene.expired(draft()).await;
    let (_other, _waiting) = (scene.worker().await, scene.add(draft()).await);
    let leader = scene.leading().await;
    let stranger = scene.worker().await;
    let wrong = [
        (stranger.id, leader.epoch),
        (WorkerId::new(), leader.epoch),
        (leader.worker.id, LeaderEpoch(leader.epoch.0 + 1)),
        (leader.worker.id, LeaderEpoch(leader.epoch.0 - 1)),
    ];
    let refused = async |id, epoch| {
        assert_not_leader(scene.store.sweeps_due(id, epoch, Vec::new(), None).await);
        let call = SweepCall::new(id, epoch, 10);
        for outage in [None, Some(OutageSpan { began: DAY, ended: Duration::ZERO })] {
            let options = ReclaimOptions { outage, skip: Vec::new() };
            assert_not_leader(scene.store.reclaim(call.clone(), options).await);
        }
        for sweep in Sweep::ALL.into_iter().filter(|sweep| *sweep != Sweep::Reclaim) {
            assert_not_leader(scene.store.sweep(sweep, call.clone()).await);
        }
        assert_not_leader(scene.store.note_sweeps(id, epoch, Vec::new()).await);
    };
    for (id, epoch) in wrong {
        refused(id, epoch).await;
    }
    assert!(leader.due_of(Sweep::MarkLost).await.is_now(), "nobody was declared lost");
    assert_eq!(leader.mark_lost().await, 1);
    scene.advance(2 * HOUR).await;
    refused(leader.worker.id, leader.epoch).await;
    assert_eq!(scene.status(job.id).await, Status::Running, "nothing was taken");
    assert_eq!(scene.workers().await.len(), 4, "nobody was forgotten");
}

pub(crate) async fn a_sweep_out_of_bounds_is_refused(scene: Scene<'_>) {
    let (_worker, job) = scene.expired(draft()).await;
    let leader = scene.leading().await;
    for limit in [0, 100_001, u32::MAX] {
        assert_invalid(leader.try_mark_lost(limit).await, None);
        assert_invalid(leader.try_reclaim(limit, &[]).await, None);
        assert_invalid(leader.try_forget(limit).await, None);
    }
    assert_eq!(leader.try_mark_lost(100_000).await.expect("at its bound"), 1);
    assert_eq!(leader.reclaim_some(100_000, &[]).await, [moved(&job, Status::Scheduled)]);
    assert_eq!(leader.try_forget(100_000).await.expect("at its bound"), 0);
}

pub(crate) async fn a_worker_whose_lease_runs_is_not_lost(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    scene.advance(LEASE * 9 / 10).await;
    let leader = scene.leading().await;
    assert_eq!(leader.due_now().await, []);
    assert_eq!(leader.mark_lost().await, 0);
    assert_eq!(leader.reclaim().await, []);
    worker.beat().await;
    assert_eq!(worker.end(&job, succeeded()).await, Status::Succeeded);
}

pub(crate) async fn a_lost_worker_can_do_nothing_more(scene: Scene<'_>) {
    let (worker, job) = scene.expired(draft()).await;
    let leader = scene.leading().await;
    assert_eq!(leader.mark_lost().await, 1);
    assert_eq!(leader.mark_lost().await, 0, "it is lost already");
    let summary = scene.workers().await.remove(0);
    assert_eq!((summary.worker, summary.state), (worker.id, WorkerState::Lost));
    assert_lease_lost(worker.try_claim(1).await);
    assert_lease_lost(worker.try_beat().await);
    assert_lease_lost(worker.note(&job, "1").await);
    assert_stale(&scene, &worker, &job).await;
    assert_eq!(scene.status(job.id).await, Status::Running, "its jobs stay until they are reclaimed");
    assert_eq!(worker.held().await.len(), 1);
}

pub(crate) async fn workers_are_declared_lost_by_id_up_to_the_limit(scene: Scene<'_>) {
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(scene.running(draft()).await.1);
    }
    scene.advance(LEASE).await;
    let leader = scene.leading().await;
    assert_eq!(leader.try_mark_lost(2).await.expect("it leads"), 2);
    let first = [moved(&jobs[0], Status::Scheduled), moved(&jobs[1], Status::Scheduled)];
    assert_eq!(leader.reclaim().await, first);
    assert_eq!(leader.try_mark_lost(2).await.expect("it leads"), 1);
    assert_eq!(leader.reclaim().await, [moved(&jobs[2], Status::Scheduled)]);
}

pub(crate) async fn nothing_is_taken_from_a_worker_that_was_not_declared_lost(scene: Scene<'_>) {
    let (worker, job) = scene.expired(draft()).await;
    let leader = scene.leading().await;
    assert_eq!(leader.reclaim().await, []);
    assert_eq!(leader.forgive().await, []);
    assert_eq!(scene.status(job.id).await, Status::Running);
    assert_eq!(worker.held().await.len(), 1);
}

pub(crate) async fn a_job_whose_first_attempt_was_lost_waits_a_second_at_most(scene: Scene<'_>) {
    let (worker, job) = scene.expired(draft().retry_every(HOUR)).await;
    let before = scene.job(job.id).await;
    let (reclaimed, when) = scene.during(scene.rescue()).await;
    assert_eq!(reclaimed, [moved(&job, Status::Scheduled)]);
    let waiting = scene.job(job.id).await;
    assert_eq!((waiting.status, waiting.attempt, waiting.epoch), (Status::Scheduled, 1, Epoch(1)));
    when.later(SECOND).assert_holds(waiting.scheduled_at);
    assert_eq!((waiting.worker, waiting.finished_at, waiting.result), (None, None, None));
    assert_eq!(waiting.error, Some(worker.loss()));
    let attempts = scene.attempts(job.id).await;
    assert_eq!(attempts.len(), 1);
    assert_eq!((attempts[0].job_id, attempts[0].epoch, attempts[0].attempt), (job.id, Epoch(1), 1));
    assert_eq!((attempts[0].outcome, attempts[0].worker), (OutcomeKind::Crashed, worker.id));
    assert_eq!(Some(attempts[0].started_at), before.started_at);
    assert_eq!(attempts[0].error, Some(worker.loss()));
    when.assert_holds(attempts[0].finished_at);
    assert!(worker.held().await.is_empty());
    scene.advance(SECOND).await;
    scene.promote_all().await;
    let again = scene.worker().await.claim_one().await;
    assert_eq!((again.id, again.attempt, again.epoch), (job.id, 2, Epoch(2)));
}

pub(crate) async fn a_shorter_delay_of_the_policy_counts_at_once(scene: Scene<'_>) {
    let short = Duration::from_millis(250);
    let (_worker, first) = scene.running(draft().retry_every(short)).await;
    let (_worker, second) = scene.running(draft().retry_every(Duration::ZERO)).await;
    scene.advance(LEASE).await;
    let (reclaimed, when) = scene.during(scene.rescue()).await;
    assert_eq!(reclaimed, [moved(&first, Status::Scheduled), moved(&second, Status::Scheduled)]);
    when.later(short).assert_holds(scene.job(first.id).await.scheduled_at);
    when.assert_holds(scene.job(second.id).await.scheduled_at);
    assert_eq!(scene.status(second.id).await, Status::Scheduled, "only promoting makes it ready");
}

pub(crate) async fn later_losses_wait_as_the_policy_says(scene: Scene<'_>) {
    let policy = RetryPolicy { base: HOUR, factor: 3.0, cap: DAY, jitter: 0.0 };
    let (_worker, job) = scene.expired(draft().policy(policy)).await;
    scene.rescue().await;
    for (attempt, delay) in [(2, 3 * HOUR), (3, 9 * HOUR), (4, DAY)] {
        scene.advance(DAY).await;
        scene.promote_all().await;
        let worker = scene.worker().await;
        assert_eq!(worker.claim_one().await.attempt, attempt);
        scene.advance(LEASE).await;
        let (_, when) = scene.during(scene.rescue()).await;
        when.later(delay).assert_holds(scene.job(job.id).await.scheduled_at);
    }
}

/// Lets a worker claim the one job and lose it, as often as the job is there to be claimed.
async fn lose_until_it_ends(scene: &Scene<'_>) -> Vec<WorkerId> {
    let mut workers = Vec::new();
    loop {
        scene.advance(HOUR).await;
        scene.promote_all().await;
        let worker = scene.worker().await;
        if worker.claim(1).await.is_empty() {
            return workers;
        }
        workers.push(worker.id);
        assert!(workers.len() < 50, "it never ends");
        scene.advance(LEASE).await;
        scene.rescue().await;
    }
}

pub(crate) async fn a_job_that_kills_its_workers_ends_crashed(scene: Scene<'_>) {
    let id = scene.add(draft().max_attempts(3).retry_every(MINUTE)).await;
    let workers = lose_until_it_ends(&scene).await;
    assert_eq!(workers.len(), 3, "it has as many attempts as it may have");
    let ended = scene.job(id).await;
    assert_eq!((ended.status, ended.attempt, ended.epoch), (Status::Crashed, 3, Epoch(3)));
    assert_eq!(ended.worker, Some(workers[2]));
    assert_eq!(
        ended.error.expect("the reason is recorded").message,
        format!("worker {} was lost", workers[2])
    );
    assert_eq!(ended.result, None);
    assert_eq!(scene.told(id).await, [(1, 1, OutcomeKind::Crashed), (2, 2, OutcomeKind::Crashed)]);
    assert!(scene.stats().await.jobs.contains(&(Status::Crashed, Count::of(1))));
}

pub(crate) async fn the_last_attempt_ends_the_job_when_it_is_lost(scene: Scene<'_>) {
    let (worker, job) = scene.expired(draft().max_attempts(1)).await;
    let (reclaimed, when) = scene.during(scene.rescue()).await;
    assert_eq!(reclaimed, [moved(&job, Status::Crashed)]);
    let ended = scene.job(job.id).await;
    when.assert_holds(ended.finished_at);
    assert_eq!((ended.worker, ended.attempt, ended.epoch), (Some(worker.id), 1, Epoch(1)));
    assert_eq!(ended.error, Some(worker.loss()));
    assert!(scene.attempts(job.id).await.is_empty(), "the last attempt is on the job itself");
    assert_stale(&scene, &worker, &job).await;
}

pub(crate) async fn losses_and_failures_share_one_budget(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft().max_attempts(2).retry_every(Duration::ZERO)).await;
    worker.end(&job, snoozed(Duration::ZERO)).await;
    worker.end(&worker.claim_one().await, failed()).await;
    worker.claim_one().await;
    scene.advance(LEASE).await;
    assert_eq!(scene.rescue().await[0].status, Status::Crashed);
    let told = [(1, 1, OutcomeKind::Snoozed), (2, 1, OutcomeKind::Failed)];
    assert_eq!(scene.told(job.id).await, told);

    scene.add(draft().max_attempts(2)).await;
    scene.worker().await.claim_one().await;
    scene.advance(LEASE).await;
    scene.rescue().await;
    scene.advance(SECOND).await;
    scene.promote_all().await;
    let worker = scene.worker().await;
    assert_eq!(worker.end(&worker.claim_one().await, failed()).await, Status::Failed);
}

pub(crate) async fn only_who_was_lost_by_the_outage_is_forgiven(scene: Scene<'_>) {
    // Each moment is far from the next, since a busy machine's time goes by as well.
    let (_before, lost_before) = scene.running(draft()).await;
    scene.advance(12 * MINUTE).await;
    let (_in, lost_in) = scene.running(draft()).await;
    let (came_back, lost_after) = scene.running(draft()).await;
    scene.advance(8 * MINUTE).await;
    came_back.beat().await;
    scene.advance(12 * MINUTE).await;
    let leader = scene.leading().await;
    assert_eq!(leader.mark_lost().await, 3);
    // From the 15th minute to the 17th: a lease of ten had ended by then, and who came back did so after it.
    let outage = OutageSpan { began: 17 * MINUTE, ended: 15 * MINUTE };
    let expected = [
        moved(&lost_before, Status::Scheduled),
        moved(&lost_in, Status::Pending),
        moved(&lost_after, Status::Scheduled),
    ];
    assert_eq!(leader.forgive_since(outage).await, expected);
}

pub(crate) async fn forgiving_burns_no_attempt(scene: Scene<'_>) {
    let id = scene.add(draft().max_attempts(1)).await;
    let first = scene.job(id).await;
    for epoch in 1..=3 {
        let worker = scene.worker().await;
        let job = worker.claim_one().await;
        assert_eq!((job.attempt, job.epoch), (1, Epoch(epoch)));
        scene.advance(LEASE).await;
        let leader = scene.leading().await;
        leader.mark_lost().await;
        assert_eq!(leader.forgive().await, [moved(&job, Status::Pending)]);
        leader.step_down().await;
        let ready = scene.job(id).await;
        assert_eq!((ready.status, ready.attempt, ready.epoch), (Status::Pending, 0, Epoch(epoch)));
        assert_eq!(ready.scheduled_at, first.scheduled_at, "it keeps its place");
        assert_eq!((ready.worker, ready.finished_at), (None, None));
        assert_eq!(ready.error, Some(worker.loss()));
        let attempt = scene.attempts(id).await.pop().expect("the attempt is kept");
        assert_eq!((attempt.epoch, attempt.attempt), (Epoch(epoch), 1));
        assert_eq!((attempt.outcome, attempt.worker), (OutcomeKind::Crashed, worker.id));
        assert_eq!(attempt.error, Some(worker.loss()));
        assert_stale(&scene, &worker, &job).await;
    }
}

pub(crate) async fn a_settlement_after_reclaim_is_stale(scene: Scene<'_>) {
    let (lost, first) = scene.expired(draft()).await;
    scene.rescue().await;
    assert_stale(&scene, &lost, &first).await;
    scene.advance(SECOND).await;
    scene.promote_all().await;
    assert_stale(&scene, &lost, &first).await;
    let worker = scene.worker().await;
    let second = worker.claim_one().await;
    assert_stale(&scene, &lost, &first).await;
    worker.end(&second, succeeded()).await;
    assert_stale(&scene, &lost, &first).await;
    assert_eq!(scene.status(first.id).await, Status::Succeeded, "the second attempt stands");
}

pub(crate) async fn what_a_worker_settled_before_it_was_lost_may_be_repeated(scene: Scene<'_>) {
    let (worker, retried) = scene.running(draft().retry_every(HOUR)).await;
    worker.end(&retried, failed()).await;
    scene.add(draft()).await;
    let ended = worker.claim_one().await;
    worker.end(&ended, succeeded()).await;
    scene.advance(LEASE).await;
    assert_eq!(scene.rescue().await, []);
    assert_eq!(worker.settle(&retried, failed()).await.reason, SettleReason::Repeated);
    assert_eq!(worker.settle(&ended, succeeded()).await.reason, SettleReason::Repeated);
}

pub(crate) async fn jobs_are_taken_by_worker_and_start_up_to_the_limit(scene: Scene<'_>) {
    let (first, second) = (scene.worker().await, scene.worker().await);
    scene.enqueue((0..4).map(|_| draft())).await;
    let mut expected = Vec::new();
    // Claimed by the second worker first: who holds a job counts before when it started.
    for worker in [&second, &first, &first, &second] {
        expected.push(moved(&worker.claim_one().await, Status::Scheduled));
        scene.advance(SECOND).await;
    }
    scene.advance(LEASE).await;
    let leader = scene.leading().await;
    leader.mark_lost().await;
    assert_eq!(leader.reclaim_some(1, &[]).await, expected[1..2]);
    assert_eq!(leader.reclaim_some(2, &[]).await, [expected[0].clone(), expected[2].clone()]);
    assert_eq!(leader.reclaim_some(2, &[]).await, expected[3..]);
    assert_eq!(leader.reclaim_some(2, &[]).await, []);
}

pub(crate) async fn a_job_that_is_to_be_skipped_is_passed_over(scene: Scene<'_>) {
    let worker = scene.worker().await;
    scene.enqueue([draft(), draft(), draft()]).await;
    let jobs = worker.claim(3).await;
    scene.advance(LEASE).await;
    let leader = scene.leading().await;
    leader.mark_lost().await;
    let skip = [jobs[0].id, JobId::new(), jobs[1].id];
    assert_eq!(leader.reclaim_some(1, &skip).await, [moved(&jobs[2], Status::Scheduled)]);
    assert_eq!(leader.reclaim_some(10, &skip).await, []);
    assert!(leader.due_of(Sweep::Reclaim).await.is_now(), "they are still there");
    let left = [moved(&jobs[0], Status::Scheduled), moved(&jobs[1], Status::Scheduled)];
    assert_eq!(leader.reclaim().await, left);
}

pub(crate) async fn reclaiming_leaves_everything_else_alone(scene: Scene<'_>) {
    let (worker, ended) = scene.running(draft()).await;
    worker.end(&ended, succeeded()).await;
    let (_worker, lost) = scene.expired(draft()).await;
    let (_worker, running) = scene.running(draft()).await;
    let others = [ended.id, running.id, scene.add(draft()).await, scene.add(draft().after(HOUR)).await];
    let mut before = Vec::new();
    for id in others {
        before.push(scene.job(id).await);
    }
    assert_eq!(scene.rescue().await, [moved(&lost, Status::Scheduled)]);
    for (id, before) in others.into_iter().zip(before) {
        assert_eq!(scene.job(id).await, before);
    }
}

pub(crate) async fn a_lost_worker_can_still_be_released(scene: Scene<'_>) {
    let (worker, job) = scene.expired(draft().max_attempts(1)).await;
    let leader = scene.leading().await;
    leader.mark_lost().await;
    assert_eq!(worker.release().await, 1);
    assert_eq!(leader.reclaim().await, [], "it took its jobs back itself");
    assert_eq!(scene.told(job.id).await, [(1, 1, OutcomeKind::Released)]);
    assert_eq!(leader.worker.claim_one().await.attempt, 1);
}

pub(crate) async fn a_reclaimed_job_still_has_its_deadline(scene: Scene<'_>) {
    let deadline = scene.now().await + MINUTE;
    let (_worker, job) = scene.expired(draft().deadline(deadline)).await;
    assert_eq!(scene.rescue().await, [moved(&job, Status::Scheduled)]);
    scene.advance(SECOND).await;
    scene.promote_all().await;
    assert!(scene.worker().await.claim(1).await.is_empty());
    let ended = scene.job(job.id).await;
    assert_eq!((ended.status, ended.attempt), (Status::Failed, 1));
    assert_eq!(ended.error.expect("the reason is recorded").class, "deadline");
}

pub(crate) async fn a_lost_worker_is_forgotten_an_hour_after_its_lease(scene: Scene<'_>) {
    let idle = scene.worker().await;
    let (busy, job) = scene.expired(draft()).await;
    let leader = scene.leading().await;
    assert_eq!(leader.mark_lost().await, 2);
    assert_eq!(leader.forget().await, 0);
    assert_eq!(leader.reclaim_some(1, &[job.id]).await, [], "the other one holds nothing");
    leader.step_down().await;
    scene.advance(59 * MINUTE).await;
    let leader = scene.leading().await;
    assert_eq!(leader.forget().await, 0, "the hour is not over");
    assert!(!leader.due_of(Sweep::Workers).await.is_now());
    leader.step_down().await;
    scene.advance(2 * MINUTE).await;
    let leader = scene.leading().await;
    assert!(leader.due_of(Sweep::Workers).await.is_now());
    assert_eq!(leader.forget().await, 1, "the other one holds a job");
    let left: Vec<WorkerId> = scene.workers().await.iter().map(|summary| summary.worker).collect();
    assert_eq!(left, [busy.id, leader.worker.id]);
    assert_lease_lost(idle.try_claim(1).await);
    leader.reclaim().await;
    assert_eq!(leader.forget().await, 1);
    assert!(!leader.due_of(Sweep::Workers).await.is_now());
    assert_lease_lost(busy.try_beat().await);
}

pub(crate) async fn only_workers_declared_lost_are_forgotten_up_to_the_limit(scene: Scene<'_>) {
    for _ in 0..3 {
        scene.worker().await;
    }
    scene.advance(DAY).await;
    let leader = scene.leading().await;
    assert_eq!(leader.forget().await, 0, "nobody has declared them lost");
    assert!(!leader.due_of(Sweep::Workers).await.is_now());
    leader.mark_lost().await;
    assert_eq!(leader.forget().await, 0, "nobody has looked whether they hold jobs");
    leader.reclaim().await;
    assert_eq!(leader.try_forget(2).await.expect("it leads"), 2);
    assert_eq!(leader.try_forget(2).await.expect("it leads"), 1);
    assert_eq!(scene.workers().await.len(), 1, "the leader itself");
}

pub(crate) async fn the_probe_says_what_there_is_to_do(scene: Scene<'_>) {
    let (_worker, _job) = scene.running(draft()).await;
    scene.add(draft().after(DAY)).await;
    let leader = scene.leading().await;
    let wait = leader.due_of(Sweep::Promote).await.due_in.expect("a job is scheduled");
    assert!(wait <= DAY && wait + MINUTE > DAY, "{wait:?}");
    assert_eq!(leader.due_now().await, []);
    leader.step_down().await;

    scene.advance(LEASE).await;
    let leader = scene.leading().await;
    assert_eq!(leader.due_now().await, [Sweep::MarkLost]);
    assert_eq!(leader.due_now().await, [Sweep::MarkLost], "asking changes nothing");
    leader.mark_lost().await;
    assert_eq!(leader.due_now().await, [Sweep::Reclaim]);
    leader.reclaim().await;
    assert_eq!(leader.due_now().await, []);
    leader.step_down().await;

    scene.advance(DAY).await;
    let leader = scene.leading().await;
    assert_eq!(leader.due_now().await, [Sweep::Promote, Sweep::Workers]);
    leader.forget().await;
    leader.sweep(Sweep::Promote).await;
    assert_eq!(leader.due_now().await, []);
}

pub(crate) async fn a_leader_before_takes_nothing(scene: Scene<'_>) {
    let (_worker, job) = scene.expired(draft()).await;
    let old = scene.leading().await;
    old.mark_lost().await;
    scene.advance(LEADER_LEASE).await;
    let new = scene.leading().await;
    assert_not_leader(old.try_reclaim(10, &[]).await);
    assert_not_leader(old.try_mark_lost(10).await);
    assert_eq!(scene.status(job.id).await, Status::Running);
    assert_eq!(new.reclaim().await, [moved(&job, Status::Scheduled)]);
}
