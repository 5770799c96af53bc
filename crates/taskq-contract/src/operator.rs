//! What operators do to jobs: trying ended ones again, and cancelling and retrying by filter.

use std::time::Duration;

use taskq_core::model::{Epoch, JobId, Outcome, OutcomeKind, SettleReason, Status};
use taskq_core::store::{
    CancelOutcome, Cancelled, CancelledBatch, JobMatch, Retried, RetriedBatch, RetryOutcome,
};

use crate::draft::{Draft, actor, draft, json, queue};
use crate::scene::{HOUR, MINUTE, Scene, assert_invalid};
use crate::worker::{
    LEASE, abandoned, cancelled, error, failed, failed_for_good, retry_after, snoozed, succeeded,
};

/// The most ids of one call.
const IDS_LIMIT: usize = 10_000;

impl Scene<'_> {
    async fn cancel_batch(&self, jobs: &JobMatch, limit: u32, after: Option<JobId>) -> CancelledBatch {
        self.store.cancel_matching(jobs.clone(), limit, after, None).await.expect("the limit is valid")
    }

    async fn retry_batch(&self, jobs: &JobMatch, limit: u32, after: Option<JobId>) -> RetriedBatch {
        self.store.retry_matching(jobs.clone(), limit, after).await.expect("the limit is valid")
    }

    /// Cancels all jobs that match and returns how many ended and how many were requested to.
    async fn cancel_all(&self, jobs: &JobMatch, limit: u32) -> (u64, u64) {
        let (mut ended, mut requested, mut after) = (0, 0, None);
        loop {
            let batch = self.cancel_batch(jobs, limit, after).await;
            assert!(batch.cancelled + batch.requested <= u64::from(limit), "{batch:?}");
            ended += batch.cancelled;
            requested += batch.requested;
            let Some(to) = batch.scanned_to else { return (ended, requested) };
            assert!(Some(to) > after, "every batch gets further");
            after = Some(to);
        }
    }

    /// Retries all jobs that match and returns how many are ready again.
    async fn retry_all(&self, jobs: &JobMatch, limit: u32) -> u64 {
        let (mut retried, mut after) = (0, None);
        loop {
            let batch = self.retry_batch(jobs, limit, after).await;
            assert!(batch.retried <= u64::from(limit), "{batch:?}");
            retried += batch.retried;
            let Some(to) = batch.scanned_to else { return retried };
            assert!(Some(to) > after, "every batch gets further");
            after = Some(to);
        }
    }

    async fn statuses(&self, ids: &[JobId]) -> Vec<Status> {
        let mut statuses = Vec::new();
        for id in ids {
            statuses.push(self.status(*id).await);
        }
        statuses
    }
}

fn retried(id: JobId) -> Retried {
    Retried { id, outcome: RetryOutcome::Retried, status: Some(Status::Pending) }
}

fn unfinished(id: JobId, status: Status) -> Retried {
    Retried { id, outcome: RetryOutcome::Unfinished, status: Some(status) }
}

fn of_status(status: Status) -> JobMatch {
    JobMatch { statuses: vec![status], ..JobMatch::default() }
}

fn tagged(job: Draft, tags: &[&str]) -> Draft {
    job.with(|job| job.tags = tags.iter().map(|tag| (*tag).to_owned()).collect())
}

/// Asserts that the job, which ended in its first attempt, can be tried again as if it were new.
async fn assert_retried(scene: &Scene<'_>, id: JobId, kind: OutcomeKind) {
    let before = scene.job(id).await;
    let (answers, when) = scene.during(scene.retry(&[id])).await;
    assert_eq!(answers, [retried(id)], "{kind:?}");
    let after = scene.job(id).await;
    assert_eq!((after.status, after.attempt, after.epoch), (Status::Pending, 0, before.epoch), "{kind:?}");
    when.assert_holds(after.scheduled_at);
    assert_eq!((after.worker, after.started_at, after.finished_at), (None, None, None), "{kind:?}");
    assert_eq!((after.schedule_to_close, &after.result, &after.progress), (None, &None, &None), "{kind:?}");
    assert_eq!(after.error, before.error, "{kind:?}: the last error stays");
    assert_eq!((after.max_attempts, after.created_at), (before.max_attempts, before.created_at));
    let attempts = scene.attempts(id).await;
    assert_eq!(attempts.len(), 1, "{kind:?}: the attempt that ended it is kept");
    assert_eq!((attempts[0].epoch, attempts[0].attempt), (Epoch(1), 1), "{kind:?}");
    assert_eq!((attempts[0].outcome, Some(attempts[0].worker)), (kind, before.worker));
    assert_eq!(Some(attempts[0].started_at), before.started_at, "{kind:?}");
    assert_eq!(Some(attempts[0].finished_at), before.finished_at, "{kind:?}");
    assert_eq!(attempts[0].error, before.error, "{kind:?}");
    let worker = scene.worker().await;
    let again = worker.claim_one().await;
    assert_eq!((again.id, again.attempt, again.epoch), (id, 1, Epoch(2)), "{kind:?}");
    assert_eq!((again.schedule_to_close, &again.payload), (None, &before.payload), "{kind:?}");
    assert_eq!(worker.end(&again, succeeded()).await, Status::Succeeded, "{kind:?}");
    assert_eq!(scene.told(id).await, [(1, 1, kind)], "{kind:?}");
}

pub(crate) async fn a_job_of_every_terminal_status_is_tried_again(scene: Scene<'_>) {
    let job = async || draft().deadline(scene.now().await + HOUR);
    for (outcome, kind) in [
        (Outcome::Succeeded { result: Some(json("7")) }, OutcomeKind::Succeeded),
        (failed_for_good(), OutcomeKind::Failed),
        (cancelled(), OutcomeKind::Cancelled),
        (abandoned(), OutcomeKind::Abandoned),
    ] {
        let (worker, claimed) = scene.running(job().await).await;
        worker.note(&claimed, "1").await.expect("alive");
        scene.advance(MINUTE).await;
        worker.end(&claimed, outcome).await;
        scene.advance(2 * HOUR).await;
        assert_retried(&scene, claimed.id, kind).await;
    }
    let (_worker, claimed) = scene.expired(job().await.max_attempts(1)).await;
    scene.rescue().await;
    assert_eq!(scene.status(claimed.id).await, Status::Crashed);
    scene.advance(HOUR).await;
    assert_retried(&scene, claimed.id, OutcomeKind::Crashed).await;
}

pub(crate) async fn a_job_that_ended_before_it_started_is_tried_again(scene: Scene<'_>) {
    let waiting = scene.add(draft().after(HOUR)).await;
    scene.cancel(&[waiting]).await;
    let late = scene.add(draft().deadline(scene.now().await + MINUTE)).await;
    scene.advance(2 * MINUTE).await;
    assert!(scene.worker().await.claim(1).await.is_empty());
    for (id, class) in [(waiting, "cancelled"), (late, "deadline")] {
        let (answers, when) = scene.during(scene.retry(&[id])).await;
        assert_eq!(answers, [retried(id)]);
        let after = scene.job(id).await;
        assert_eq!((after.attempt, after.epoch), (0, Epoch(0)));
        assert_eq!((after.schedule_to_close, after.finished_at), (None, None));
        assert_eq!(after.error.expect("the last error stays").class, class);
        when.assert_holds(after.scheduled_at);
        assert!(scene.attempts(id).await.is_empty(), "there was no attempt");
        assert_eq!(scene.worker().await.claim_one().await.id, id);
    }
}

pub(crate) async fn a_retry_gives_a_fresh_budget_and_keeps_the_history(scene: Scene<'_>) {
    let (worker, first) = scene.running(draft().max_attempts(2).retry_every(Duration::ZERO)).await;
    worker.end(&first, failed()).await;
    assert_eq!(worker.end(&worker.claim_one().await, failed()).await, Status::Failed);
    scene.retry(&[first.id]).await;
    assert_eq!(worker.end(&worker.claim_one().await, failed()).await, Status::Pending);
    assert_eq!(worker.end(&worker.claim_one().await, failed_for_good()).await, Status::Failed);
    scene.retry(&[first.id]).await;
    assert_eq!(worker.end(&worker.claim_one().await, succeeded()).await, Status::Succeeded);
    let failed = |epoch, attempt| (epoch, attempt, OutcomeKind::Failed);
    assert_eq!(scene.told(first.id).await, [failed(1, 1), failed(2, 2), failed(3, 1), failed(4, 2)]);
    let ended = scene.job(first.id).await;
    assert_eq!((ended.attempt, ended.epoch, ended.error), (1, Epoch(5), None));
}

pub(crate) async fn a_crashed_job_has_a_fresh_budget_too(scene: Scene<'_>) {
    let (_worker, job) = scene.expired(draft().max_attempts(1)).await;
    scene.rescue().await;
    scene.retry(&[job.id]).await;
    scene.worker().await.claim_one().await;
    scene.advance(LEASE).await;
    assert_eq!(scene.rescue().await[0].status, Status::Crashed);
    assert_eq!(scene.told(job.id).await, [(1, 1, OutcomeKind::Crashed)]);
}

pub(crate) async fn a_job_that_ends_before_its_new_start_keeps_one_record_of_the_old(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    worker.end(&job, failed_for_good()).await;
    for _ in 0..2 {
        assert_eq!(scene.retry(&[job.id]).await, [retried(job.id)]);
        let status = Some(Status::Cancelled);
        let cancelled = Cancelled { id: job.id, outcome: CancelOutcome::Cancelled, status };
        assert_eq!(scene.cancel(&[job.id]).await, [cancelled]);
        assert_eq!(scene.told(job.id).await, [(1, 1, OutcomeKind::Failed)]);
    }
}

pub(crate) async fn a_retried_job_takes_its_place_by_the_time_of_the_retry(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    worker.end(&job, succeeded()).await;
    scene.advance(MINUTE).await;
    let waiting = scene.add(draft()).await;
    scene.advance(MINUTE).await;
    scene.retry(&[job.id]).await;
    assert_eq!(worker.claim_ids(2).await, [waiting, job.id]);
}

pub(crate) async fn a_job_that_has_not_ended_is_not_retried(scene: Scene<'_>) {
    let (worker, again) = scene.running(draft()).await;
    worker.end(&again, retry_after(HOUR)).await;
    let (_worker, running) = scene.running(draft()).await;
    let ready = scene.add(draft()).await;
    let waiting = scene.add(draft().after(HOUR)).await;
    let jobs = [
        (again.id, Status::Scheduled),
        (running.id, Status::Running),
        (ready, Status::Pending),
        (waiting, Status::Scheduled),
    ];
    for (id, status) in jobs {
        let before = scene.job(id).await;
        assert_eq!(scene.retry(&[id]).await, [unfinished(id, status)]);
        assert_eq!(scene.job(id).await, before);
    }
}

pub(crate) async fn answers_to_a_retry_come_in_the_order_of_the_ids(scene: Scene<'_>) {
    assert_eq!(scene.retry(&[]).await, []);
    let worker = scene.worker().await;
    scene.enqueue([draft(), draft()]).await;
    let jobs = worker.claim(2).await;
    for job in &jobs {
        worker.end(job, succeeded()).await;
    }
    let (left, right) = (jobs[0].id, jobs[1].id);
    let ready = scene.add(draft()).await;
    let missing = JobId::new();
    let not_found = Retried { id: missing, outcome: RetryOutcome::NotFound, status: None };
    let expected = [
        retried(right),
        not_found,
        unfinished(ready, Status::Pending),
        unfinished(right, Status::Pending),
        retried(left),
    ];
    assert_eq!(scene.retry(&[right, missing, ready, right, left]).await, expected);
    assert_eq!(scene.attempts(right).await.len(), 1);
}

pub(crate) async fn too_many_ids_to_retry_are_refused(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    worker.end(&job, succeeded()).await;
    let mut ids = vec![job.id; IDS_LIMIT + 1];
    assert_invalid(scene.store.retry(ids.clone()).await, None);
    assert_eq!(scene.status(job.id).await, Status::Succeeded, "nothing was done");
    ids.pop();
    assert_eq!(scene.retry(&ids).await.len(), IDS_LIMIT);
}

pub(crate) async fn what_was_settled_before_a_retry_may_be_repeated(scene: Scene<'_>) {
    for outcome in [succeeded(), failed_for_good(), cancelled(), abandoned()] {
        let kind = outcome.kind();
        let (worker, job) = scene.running(draft()).await;
        worker.end(&job, outcome.clone()).await;
        scene.retry(&[job.id]).await;
        let before = scene.job(job.id).await;
        assert_eq!(worker.settle(&job, outcome.clone()).await.reason, SettleReason::Repeated, "{kind:?}");
        assert_eq!(worker.settle(&job, snoozed(HOUR)).await.reason, SettleReason::Stale, "{kind:?}");
        assert_eq!(scene.job(job.id).await, before, "{kind:?}");
        let again = worker.claim_one().await;
        assert_eq!(worker.settle(&job, outcome).await.reason, SettleReason::Repeated, "{kind:?}");
        worker.end(&again, succeeded()).await;
    }
}

pub(crate) async fn every_field_of_a_match_narrows(scene: Scene<'_>) {
    let jobs = || {
        [
            tagged(draft(), &["red", "blue"]),
            tagged(draft().queue("r"), &["red"]),
            tagged(draft().actor("b"), &["blue"]),
            draft().after(HOUR),
            draft().queue("r").actor("b"),
        ]
    };
    let red = || JobMatch { tag: Some("red".to_owned()), ..JobMatch::default() };
    let in_r = || JobMatch { queue: Some(queue("r")), ..JobMatch::default() };
    let by_b = || JobMatch { actor: Some(actor("b")), ..JobMatch::default() };
    let cases: [(JobMatch, &[usize]); 10] = [
        (JobMatch::default(), &[0, 1, 2, 3, 4]),
        (red(), &[0, 1]),
        (in_r(), &[1, 4]),
        (by_b(), &[2, 4]),
        (of_status(Status::Scheduled), &[3]),
        (JobMatch { statuses: vec![Status::Scheduled, Status::Pending, Status::Failed], ..by_b() }, &[2, 4]),
        (JobMatch { queue: Some(queue("r")), ..red() }, &[1]),
        (JobMatch { queue: Some(queue("r")), ..by_b() }, &[4]),
        (JobMatch { actor: Some(actor("b")), ..red() }, &[]),
        (JobMatch { tag: Some("re".to_owned()), ..JobMatch::default() }, &[]),
    ];
    for (filter, expected) in cases {
        let ids = scene.add_all(jobs()).await;
        assert_eq!(scene.cancel_all(&filter, 100).await, (expected.len() as u64, 0), "{filter:?}");
        for (index, id) in ids.iter().enumerate() {
            let ended = scene.status(*id).await == Status::Cancelled;
            assert_eq!(ended, expected.contains(&index), "{filter:?}, job {index}");
        }
        // Leave nothing for the next round to find.
        scene.cancel(&ids).await;
    }
}

pub(crate) async fn a_cancellation_by_match_counts_what_it_did(scene: Scene<'_>) {
    let worker = scene.worker().await;
    scene.enqueue([draft(), draft(), draft()]).await;
    let jobs = worker.claim(3).await;
    worker.end(&jobs[0], succeeded()).await;
    let ids = scene.add_all([draft(), draft().after(HOUR)]).await;
    let reason = Some("tidying up".to_owned());
    let batch = scene.store.cancel_matching(JobMatch::default(), 100, None, reason).await.expect("valid");
    assert_eq!(batch, CancelledBatch { cancelled: 2, requested: 2, scanned_to: None });
    assert_eq!(worker.requests().await, [(jobs[1].id, Epoch(1)), (jobs[2].id, Epoch(1))]);
    assert_eq!(scene.statuses(&ids).await, [Status::Cancelled; 2]);
    let error = scene.job(ids[0]).await.error.expect("the reason is recorded");
    assert_eq!((error.class.as_str(), error.message.as_str()), ("cancelled", "tidying up"));
    assert_eq!(scene.status(jobs[0].id).await, Status::Succeeded);
    assert_eq!(scene.cancel_all(&JobMatch::default(), 100).await, (0, 2), "asked again, they run still");
}

pub(crate) async fn a_cancellation_by_match_goes_on_batch_by_batch(scene: Scene<'_>) {
    let ids = scene.add_all((0..7).map(|_| draft())).await;
    let mut after = None;
    for done in [3, 6] {
        let batch = scene.cancel_batch(&JobMatch::default(), 3, after).await;
        assert_eq!((batch.cancelled, batch.requested), (3, 0));
        assert_eq!(batch.scanned_to, Some(ids[done - 1]), "the last one that was cancelled");
        assert_eq!(scene.statuses(&ids[..done]).await, vec![Status::Cancelled; done]);
        assert_eq!(scene.statuses(&ids[done..]).await, vec![Status::Pending; 7 - done]);
        after = batch.scanned_to;
    }
    let batch = scene.cancel_batch(&JobMatch::default(), 3, after).await;
    assert_eq!(batch, CancelledBatch { cancelled: 1, requested: 0, scanned_to: None });
}

pub(crate) async fn a_batch_goes_on_behind_the_id_it_is_given(scene: Scene<'_>) {
    let ids = scene.add_all((0..4).map(|_| draft())).await;
    let batch = scene.cancel_batch(&JobMatch::default(), 100, Some(ids[1])).await;
    assert_eq!(batch, CancelledBatch { cancelled: 2, requested: 0, scanned_to: None });
    assert_eq!(scene.statuses(&ids[..2]).await, [Status::Pending; 2]);
    let batch = scene.cancel_batch(&JobMatch::default(), 100, Some(ids[3])).await;
    assert_eq!(batch, CancelledBatch { cancelled: 0, requested: 0, scanned_to: None });
    assert_eq!(scene.retry_batch(&JobMatch::default(), 100, Some(ids[2])).await.retried, 1);
    assert_eq!(scene.statuses(&ids[2..]).await, [Status::Cancelled, Status::Pending]);
}

pub(crate) async fn a_batch_looks_at_a_bounded_number_of_jobs(scene: Scene<'_>) {
    let passed_over = scene.add_all((0..45).map(|_| draft())).await;
    let wanted = scene.add(draft().queue("r")).await;
    let filter = JobMatch { queue: Some(queue("r")), ..JobMatch::default() };
    let batch = scene.cancel_batch(&filter, 2, None).await;
    assert_eq!((batch.cancelled, batch.requested), (0, 0));
    let to = batch.scanned_to.expect("it did not see all");
    assert!(to <= passed_over[19], "it looked at ten times its limit at most");
    assert_eq!(scene.cancel_all(&filter, 2).await, (1, 0), "but it comes to the end");
    assert_eq!(scene.status(wanted).await, Status::Cancelled);
    let filter = JobMatch { queue: Some(queue("r")), ..of_status(Status::Cancelled) };
    let batch = scene.retry_batch(&filter, 2, None).await;
    assert_eq!(batch.retried, 0);
    assert!(batch.scanned_to.expect("it did not see all") <= passed_over[19]);
    assert_eq!(scene.retry_all(&filter, 2).await, 1);
}

pub(crate) async fn a_batch_may_hold_more_than_a_list_of_ids(scene: Scene<'_>) {
    let all = IDS_LIMIT as u64 + 1;
    for half in [all / 2, all - all / 2] {
        scene.enqueue((0..half).map(|_| draft())).await;
    }
    assert_eq!(scene.cancel_batch(&JobMatch::default(), 100_000, None).await.cancelled, all);
    assert_eq!(scene.retry_batch(&JobMatch::default(), 100_000, None).await.retried, all);
}

pub(crate) async fn a_retry_by_match_counts_what_it_did(scene: Scene<'_>) {
    let (by_a, by_b) = (scene.worker().await, scene.worker_for(&["q"], &["b"]).await);
    scene.enqueue([draft(), draft(), draft(), draft(), draft().actor("b"), draft().actor("b")]).await;
    let (of_a, of_b) = (by_a.claim(10).await, by_b.claim(10).await);
    for job in &of_a[..3] {
        by_a.end(job, failed_for_good()).await;
    }
    for job in &of_b {
        by_b.end(job, succeeded()).await;
    }
    let ready = scene.add(draft()).await;
    assert_eq!(scene.retry_all(&of_status(Status::Running), 100).await, 0, "it runs still");
    assert_eq!(scene.retry_all(&of_status(Status::Failed), 2).await, 3);
    assert_eq!(scene.retry_all(&of_status(Status::Failed), 2).await, 0);
    for job in &of_a[..3] {
        let after = scene.job(job.id).await;
        assert_eq!((after.status, after.attempt), (Status::Pending, 0));
        assert_eq!(after.error, Some(error("it broke for good")));
        assert_eq!(scene.told(job.id).await, [(1, 1, OutcomeKind::Failed)]);
    }
    assert_eq!(scene.status(of_b[0].id).await, Status::Succeeded);
    let batch = scene.retry_batch(&JobMatch::default(), 100, None).await;
    assert_eq!(batch, RetriedBatch { retried: 2, scanned_to: None });
    assert_eq!(scene.statuses(&[of_a[3].id, ready]).await, [Status::Running, Status::Pending]);
}

pub(crate) async fn a_match_that_finds_nothing_is_no_error(scene: Scene<'_>) {
    let nothing = CancelledBatch { cancelled: 0, requested: 0, scanned_to: None };
    assert_eq!(scene.cancel_batch(&JobMatch::default(), 1, None).await, nothing);
    let id = scene.add(draft()).await;
    assert_eq!(scene.cancel_batch(&of_status(Status::Blocked), 1, None).await, nothing);
    let nothing = RetriedBatch { retried: 0, scanned_to: None };
    assert_eq!(scene.retry_batch(&of_status(Status::Failed), 1, None).await, nothing);
    assert_eq!(scene.status(id).await, Status::Pending);
}

pub(crate) async fn a_batch_out_of_bounds_is_refused(scene: Scene<'_>) {
    let id = scene.add(draft()).await;
    for limit in [0, 100_001, u32::MAX] {
        assert_invalid(scene.store.cancel_matching(JobMatch::default(), limit, None, None).await, None);
        assert_invalid(scene.store.retry_matching(JobMatch::default(), limit, None).await, None);
    }
    assert_eq!(scene.status(id).await, Status::Pending, "nothing was done");
}
