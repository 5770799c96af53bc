//! The archive: finished jobs go there after their hot period, are seen and retried from there, and go for good.

use std::time::Duration;

use taskq_core::model::{
    ClaimedJob, EnqueueOutcome, IdempotencyKey, JobId, JobRecord, OnFinished, Outcome, OutcomeKind,
    SettleReason, Status,
};
use taskq_core::store::{
    ActorChanges, CancelOutcome, Cancelled, JobFilter, JobMatch, PruneCall, PruneMode, Retried, RetryOutcome,
    Setting, Sweep, SweepCall,
};

use crate::draft::{Draft, actor, draft, json};
use crate::leading::Leading;
use crate::scene::{DAY, HOUR, MINUTE, Scene, assert_invalid, assert_not_leader};
use crate::worker::{abandoned, cancelled, failed, failed_for_good, succeeded};

/// More than any test takes, and less than any period of the archive.
const A_WHILE: Duration = MINUTE;

impl Leading<'_> {
    /// Runs a sweep until it has nothing more to do; returns how many rows it changed.
    async fn drain(&self, sweep: Sweep) -> u64 {
        let mut rows = 0;
        loop {
            let swept = self.sweep(sweep).await;
            assert_eq!((swept.problems, &swept.problem), (0, &None), "{sweep:?}");
            rows += swept.rows;
            if !swept.more {
                return rows;
            }
        }
    }
}

impl Scene<'_> {
    /// Lets a leader drain sweeps; returns how many rows the last one changed.
    async fn lead_through(&self, sweeps: &[Sweep]) -> u64 {
        let leader = self.leading().await;
        let mut rows = 0;
        for sweep in sweeps {
            rows = leader.drain(*sweep).await;
        }
        leader.step_down().await;
        rows
    }

    async fn archive(&self) -> u64 {
        self.lead_through(&[Sweep::Archive]).await
    }

    /// A job that has ended so.
    async fn ended(&self, job: Draft, outcome: Outcome) -> ClaimedJob {
        let (worker, claimed) = self.running(job).await;
        worker.end(&claimed, outcome).await;
        worker.release().await;
        claimed
    }

    /// A job that has succeeded and is archived.
    async fn archived(&self, job: Draft) -> ClaimedJob {
        let claimed = self.ended(job, succeeded()).await;
        self.advance(HOUR).await;
        assert_eq!(self.archive().await, 1, "its hot period is over");
        claimed
    }

    async fn is_archived(&self, id: JobId) -> bool {
        self.job(id).await.archived_at.is_some()
    }

    async fn is_there(&self, id: JobId) -> bool {
        self.store.job(id).await.expect("reading succeeds").is_some()
    }

    async fn page(&self, filter: JobFilter) -> Vec<JobId> {
        let page = self.store.jobs(filter).await.expect("the filter is valid");
        page.into_iter().map(|job| job.id).collect()
    }

    async fn set_hot(&self, setting: Setting) {
        self.operator().await.set_setting(setting).await.expect("the value is in bounds");
    }
}

fn keyed(key: &str) -> Draft {
    let key = IdempotencyKey::new(key).expect("a valid key");
    draft().with(|job| job.idempotency_key = Some(key))
}

pub(crate) async fn a_finished_job_is_archived_after_its_hot_period(scene: Scene<'_>) {
    let mut ends = Vec::new();
    for outcome in [succeeded(), cancelled(), failed_for_good(), abandoned()] {
        ends.push(scene.ended(draft(), outcome).await.id);
    }
    let (_, lost) = scene.expired(draft().max_attempts(1)).await;
    scene.rescue().await;
    ends.push(lost.id);
    assert_eq!(scene.status(lost.id).await, Status::Crashed);
    let waits = scene.add(draft().after(9 * DAY)).await;

    assert_eq!(scene.archive().await, 0, "their hot periods are not over");
    scene.advance(HOUR).await;
    assert_eq!(scene.archive().await, 2, "those that succeeded and were cancelled");
    scene.advance(22 * HOUR).await;
    assert_eq!(scene.archive().await, 0);
    scene.advance(HOUR).await;
    assert_eq!(scene.archive().await, 3, "failed, abandoned, crashed");
    for id in ends {
        assert!(scene.is_archived(id).await);
    }
    assert!(!scene.is_archived(waits).await);
}

pub(crate) async fn an_archived_job_is_what_it_was(scene: Scene<'_>) {
    let full = draft().retry_every(MINUTE).max_attempts(7).with(|job| {
        job.tags = vec!["t".to_owned()];
        job.metadata = Some(json(r#"{"m": 1}"#));
        job.payload = json(r#"{"p": [1]}"#);
        job.start_to_close = Some(HOUR);
    });
    let (worker, job) = scene.running(full).await;
    worker.note(&job, "[50]").await.expect("it runs");
    worker.end(&job, failed()).await;
    scene.advance(MINUTE).await;
    scene.promote_all().await;
    let again = worker.claim_one().await;
    worker.end(&again, Outcome::Succeeded { result: Some(json("[2]")) }).await;
    let (before, told) = (scene.job(job.id).await, scene.told(job.id).await);
    assert_eq!((before.archived_at, told.len()), (None, 1));
    let endings = scene.store.endings(vec![job.id]).await.expect("reading succeeds");

    scene.advance(HOUR).await;
    let (rows, span) = scene.during(scene.archive()).await;
    assert_eq!(rows, 1);
    let after = scene.job(job.id).await;
    span.assert_holds(after.archived_at);
    assert_eq!(JobRecord { archived_at: None, ..after }, before);
    assert_eq!(scene.told(job.id).await, told);
    assert_eq!(scene.store.endings(vec![job.id]).await.expect("reading succeeds"), endings);
}

pub(crate) async fn a_list_has_jobs_of_both_sides_in_one_order(scene: Scene<'_>) {
    let first = scene.archived(draft().queue("q")).await.id;
    let second = scene.add(draft().queue("other")).await;
    let third = scene.archived(draft()).await.id;
    let bad = scene.ended(draft(), failed_for_good()).await.id;
    scene.advance(DAY).await;
    assert_eq!(scene.archive().await, 1);
    let last = scene.ended(draft(), failed_for_good()).await.id;
    let all = JobFilter { limit: 10, ..JobFilter::default() };
    assert_eq!(scene.page(all.clone()).await, [last, bad, third, second, first]);
    assert_eq!(scene.page(JobFilter { limit: 2, ..all.clone() }).await, [last, bad]);
    assert_eq!(scene.page(JobFilter { before: Some(bad), limit: 2, ..all.clone() }).await, [third, second]);
    assert_eq!(scene.page(JobFilter { status: Some(Status::Failed), ..all.clone() }).await, [last, bad]);
    assert_eq!(
        scene.page(JobFilter { status: Some(Status::Succeeded), ..all.clone() }).await,
        [third, first]
    );
    assert_eq!(scene.page(JobFilter { status: Some(Status::Pending), ..all.clone() }).await, [second]);
    let of_queue = JobFilter { queue: Some(crate::draft::queue("other")), ..all };
    assert_eq!(scene.page(of_queue).await, [second]);
}

pub(crate) async fn an_archived_job_is_retried_from_there(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft().retry_every(MINUTE)).await;
    worker.end(&job, failed()).await;
    scene.advance(MINUTE).await;
    scene.promote_all().await;
    let again = worker.claim_one().await;
    worker.end(&again, succeeded()).await;
    scene.advance(HOUR).await;
    assert_eq!(scene.archive().await, 1);

    let unknown = JobId::new();
    let answers = scene.retry(&[unknown, job.id, job.id]).await;
    let answer = |id, outcome, status| Retried { id, outcome, status };
    assert_eq!(
        answers,
        [
            answer(unknown, RetryOutcome::NotFound, None),
            answer(job.id, RetryOutcome::Retried, Some(Status::Pending)),
            answer(job.id, RetryOutcome::Unfinished, Some(Status::Pending)),
        ]
    );
    let job_again = scene.job(job.id).await;
    assert_eq!((job_again.status, job_again.attempt, job_again.archived_at), (Status::Pending, 0, None));
    assert_eq!(scene.page(JobFilter { limit: 10, ..JobFilter::default() }).await, [job.id], "on one side");
    let told = scene.told(job.id).await;
    assert_eq!(told, [(1, 1, OutcomeKind::Failed), (2, 2, OutcomeKind::Succeeded)]);

    let worker = scene.worker().await;
    let third = worker.claim_one().await;
    assert_eq!((third.id, third.epoch.0), (job.id, 3), "the epoch only grows");
    worker.end(&third, succeeded()).await;
    scene.advance(HOUR).await;
    assert_eq!(scene.archive().await, 1, "it is archived again");
    assert_eq!(scene.told(job.id).await, told);
}

pub(crate) async fn an_archived_job_cannot_be_cancelled_or_settled(scene: Scene<'_>) {
    let job = scene.archived(draft()).await;
    let outcome = CancelOutcome::Finished;
    assert_eq!(
        scene.cancel(&[job.id]).await,
        [Cancelled { id: job.id, outcome, status: Some(Status::Succeeded) }]
    );
    let worker = scene.worker().await;
    let late = worker.settle(&job, succeeded()).await;
    assert_eq!((late.reason, late.status), (SettleReason::Gone, None));
    assert!(scene.is_archived(job.id).await);
}

pub(crate) async fn retrying_what_matches_leaves_the_archive_alone(scene: Scene<'_>) {
    let archived = scene.archived(draft()).await.id;
    let finished = scene.ended(draft(), succeeded()).await.id;
    let batch = scene.store.retry_matching(JobMatch::default(), 100, None).await.expect("in bounds");
    assert_eq!(batch.retried, 1);
    assert_eq!(scene.status(finished).await, Status::Pending);
    assert!(scene.is_archived(archived).await);
}

pub(crate) async fn an_id_that_is_archived_is_taken(scene: Scene<'_>) {
    let taken = draft();
    let job = scene.archived(taken.clone()).await;
    let before = scene.job(job.id).await;
    let answers = scene.enqueue([taken.clone(), draft()]).await;
    assert_eq!((answers[0].outcome, answers[0].status), (EnqueueOutcome::Existing, Some(Status::Succeeded)));
    assert_eq!(answers[1].outcome, EnqueueOutcome::Created);
    // As many as are written in another way, and by themselves.
    for many in [1, 150, 2_000] {
        let mut jobs: Vec<Draft> = (1..many).map(|_| draft()).collect();
        jobs.push(taken.clone());
        let answers = scene.enqueue(jobs).await;
        let created = answers.iter().filter(|answer| answer.outcome == EnqueueOutcome::Created).count();
        assert_eq!(created, many - 1, "{many}");
        let last = answers[many - 1];
        assert_eq!(
            (last.id, last.outcome, last.status),
            (job.id, EnqueueOutcome::Existing, Some(Status::Succeeded))
        );
    }
    assert_eq!(scene.job(job.id).await, before);
}

pub(crate) async fn the_key_of_an_archived_job_still_stands(scene: Scene<'_>) {
    let job = scene.archived(keyed("k")).await;
    let again = scene.enqueue([keyed("k")]).await;
    assert_eq!(
        (again[0].id, again[0].outcome, again[0].status),
        (job.id, EnqueueOutcome::Existing, Some(Status::Succeeded))
    );
    let run_again = keyed("k").with(|job| job.on_finished = OnFinished::RunAgain);
    let replaced = scene.enqueue([run_again]).await;
    assert_eq!(replaced[0].outcome, EnqueueOutcome::Replaced);
    assert!(scene.is_archived(job.id).await);

    let own = keyed("m").with(|new| new.id = job.id);
    assert_eq!(scene.enqueue([own]).await[0].outcome, EnqueueOutcome::Existing);
}

pub(crate) async fn a_result_goes_at_its_time_in_the_archive_too(scene: Scene<'_>) {
    scene.set_hot(Setting::ResultTtl(2 * HOUR)).await;
    let job = scene.ended(draft(), Outcome::Succeeded { result: Some(json("1")) }).await;
    scene.advance(HOUR).await;
    assert_eq!(scene.archive().await, 1);
    assert!(scene.job(job.id).await.result.is_some());
    scene.advance(HOUR).await;
    assert_eq!(scene.archive().await, 0);
    let record = scene.job(job.id).await;
    assert!(record.result.is_none() && record.result_expires_at.is_some());
    assert_eq!(scene.store.endings(vec![job.id]).await.expect("reading succeeds")[0].result, None);
    let endings = scene.page(JobFilter { limit: 1, ..JobFilter::default() }).await;
    assert_eq!(endings, [job.id]);

    let late = scene.ended(draft(), Outcome::Succeeded { result: Some(json("1")) }).await;
    scene.advance(2 * HOUR).await;
    assert_eq!(scene.archive().await, 1, "archived before its result was swept");
    assert_eq!(scene.job(late.id).await.result, None);
    assert_eq!(scene.lead_through(&[Sweep::Results]).await, 0);
}

pub(crate) async fn a_hot_period_is_a_setting_and_an_actors_own(scene: Scene<'_>) {
    scene.set_hot(Setting::HotPeriod(2 * HOUR)).await;
    scene.set_hot(Setting::FailedHotPeriod(3 * HOUR)).await;
    let changes = ActorChanges { hot_period: Some(Some(4 * HOUR)), failed_hot_period: None };
    assert!(scene.operator().await.set_actor(actor("b"), changes).await.expect("in bounds"));
    assert!(!scene.operator().await.set_actor(actor("b"), changes).await.expect("in bounds"), "as it was");
    let (worker, other) = (scene.worker().await, scene.worker_for(&["q"], &["b"]).await);
    let mut ids = Vec::new();
    for outcome in [succeeded(), failed_for_good(), cancelled()] {
        for (who, name) in [(&worker, "a"), (&other, "b")] {
            let id = scene.add(draft().actor(name)).await;
            let job = who.claim_one().await;
            who.end(&job, outcome.clone()).await;
            ids.push(id);
        }
    }
    let (mut archived, mut hours) = (Vec::new(), Vec::new());
    for hour in 0..=4 {
        hours.push(scene.lead_through(&[Sweep::Archive]).await);
        for id in &ids {
            if !archived.contains(id) && scene.is_archived(*id).await {
                archived.push(*id);
            }
        }
        assert_eq!(archived.len() as u64, hours.iter().sum::<u64>(), "{hour}");
        scene.advance(HOUR).await;
    }
    assert_eq!(hours, [0, 0, 2, 2, 2], "succeeded and cancelled of a, failed of both, the others of b");
}

pub(crate) async fn a_changed_hot_period_counts_for_jobs_that_have_finished(scene: Scene<'_>) {
    for _ in 0..3 {
        scene.ended(draft(), succeeded()).await;
    }
    let other = scene.add(draft().actor("b")).await;
    scene.cancel(&[other]).await;
    let changes = ActorChanges { hot_period: Some(Some(9 * DAY)), failed_hot_period: None };
    assert!(scene.operator().await.set_actor(actor("b"), changes).await.expect("in bounds"));
    scene.set_hot(Setting::HotPeriod(3 * HOUR)).await;
    let leader = scene.leading().await;
    assert!(!leader.due_of(Sweep::Restamp).await.is_now(), "a little later");
    leader.step_down().await;
    scene.advance(A_WHILE).await;
    let leader = scene.leading().await;
    assert!(leader.due_of(Sweep::Restamp).await.is_now());
    let first = leader.try_sweep(Sweep::Restamp, 2).await.expect("it leads");
    assert_eq!((first.rows, first.more), (2, true));
    assert_eq!(leader.drain(Sweep::Restamp).await, 2);
    assert_eq!(leader.due_of(Sweep::Restamp).await.due_in, None);
    leader.step_down().await;
    scene.advance(HOUR).await;
    assert_eq!(scene.archive().await, 0, "longer than before");
    scene.set_hot(Setting::HotPeriod(MINUTE)).await;
    scene.advance(A_WHILE).await;
    assert_eq!(
        scene.lead_through(&[Sweep::Restamp, Sweep::Archive]).await,
        3,
        "shorter, but for the actor's"
    );
    assert!(!scene.is_archived(other).await);
    let back = ActorChanges { hot_period: Some(None), failed_hot_period: None };
    assert!(scene.operator().await.set_actor(actor("b"), back).await.expect("in bounds"));
    scene.advance(A_WHILE).await;
    assert_eq!(scene.lead_through(&[Sweep::Restamp, Sweep::Archive]).await, 1);
}

pub(crate) async fn a_hot_period_out_of_bounds_is_refused(scene: Scene<'_>) {
    for period in [Duration::ZERO, Duration::from_micros(59_999_999), 36_601 * DAY] {
        for setting in [Setting::HotPeriod(period), Setting::FailedHotPeriod(period)] {
            assert_invalid(scene.operator().await.set_setting(setting).await, None);
        }
        let own = ActorChanges { hot_period: Some(Some(period)), failed_hot_period: None };
        assert_invalid(scene.operator().await.set_actor(actor("a"), own).await, None);
        let own = ActorChanges { hot_period: None, failed_hot_period: Some(Some(period)) };
        assert_invalid(scene.operator().await.set_actor(actor("a"), own).await, None);
    }
    assert_invalid(
        scene.operator().await.set_setting(Setting::ArchiveRetentionPeriod(36_601 * DAY)).await,
        None,
    );
    for setting in [Setting::HotPeriod(MINUTE), Setting::ArchiveRetentionPeriod(Duration::ZERO)] {
        scene.set_hot(setting).await;
    }
}

pub(crate) async fn a_month_of_the_archive_goes_when_it_is_kept_no_longer(scene: Scene<'_>) {
    let old = scene.archived(draft()).await.id;
    scene.advance(32 * DAY).await;
    let young = scene.archived(draft()).await.id;
    scene.lead_through(&[Sweep::ArchiveExpiry]).await;
    assert!(scene.is_archived(old).await, "kept for a year unless set otherwise");

    scene.set_hot(Setting::ArchiveRetentionPeriod(Duration::ZERO)).await;
    scene.advance(1_000 * DAY).await;
    scene.lead_through(&[Sweep::ArchiveExpiry]).await;
    assert!(scene.is_archived(old).await, "zero is for ever");

    // Long enough that the end of the first month has passed by so much, and that of the second has not.
    let end_of_month = 1_000 * DAY + HOUR;
    scene.set_hot(Setting::ArchiveRetentionPeriod(end_of_month)).await;
    let leader = scene.leading().await;
    let due = leader.due_of(Sweep::ArchiveExpiry).await;
    assert!(due.is_now() || due.due_in.is_some_and(|wait| wait < 32 * DAY), "{due:?}");
    leader.step_down().await;
    scene.set_hot(Setting::ArchiveRetentionPeriod(968 * DAY)).await;
    scene.lead_through(&[Sweep::ArchiveExpiry]).await;
    assert!(!scene.is_there(old).await, "gone for good, with its month");
    scene.set_hot(Setting::ArchiveRetentionPeriod(DAY)).await;
    scene.lead_through(&[Sweep::ArchiveExpiry]).await;
    assert!(!scene.is_there(young).await);
    assert_eq!(scene.attempts(old).await, []);
    let answer = scene.retry(&[old]).await;
    assert_eq!(answer[0].outcome, RetryOutcome::NotFound);
}

pub(crate) async fn two_years_go_by(scene: Scene<'_>) {
    let mut jobs = Vec::new();
    for _ in 0..24 {
        let good = scene.ended(draft(), succeeded()).await.id;
        let bad = scene.ended(draft(), failed_for_good()).await.id;
        let now = scene.now().await;
        jobs.extend([(now, good), (now, bad)]);
        scene.advance(HOUR).await;
        assert_eq!(scene.archive().await, 1, "the one that succeeded");
        assert!(scene.is_archived(good).await && !scene.is_archived(bad).await);
        scene.advance(30 * DAY + 10 * HOUR).await;
        scene.lead_through(&[Sweep::Archive, Sweep::ArchiveExpiry]).await;
        let all = JobFilter { limit: 1_000, ..JobFilter::default() };
        let page = scene.store.jobs(all).await.expect("the filter is valid");
        let now = scene.now().await;
        assert!(page.iter().all(|job| job.archived_at.is_some()));
        for (ended, id) in &jobs {
            let listed = page.iter().filter(|job| job.id == *id).count();
            assert!(listed <= 1, "on one side");
            // Kept for a year behind the end of its month.
            assert!(listed == 1 || now > *ended + 365 * DAY, "of {ended}, gone too early at {now}");
            assert!(listed == 0 || now < *ended + 397 * DAY, "of {ended}, still there at {now}");
        }
    }
    let left = scene.page(JobFilter { limit: 1_000, ..JobFilter::default() }).await;
    assert!((22..=28).contains(&left.len()), "two jobs of each month of a year: {}", left.len());
}

/// What a batch of a prune did: how many jobs, how many of them archived.
async fn prune(scene: &Scene<'_>, call: &PruneCall) -> (u64, u64) {
    let (mut pruned, mut archived, mut after) = (0, 0, None);
    loop {
        let call = PruneCall { after, ..call.clone() };
        let batch = scene.operator().await.prune(call).await.expect("in bounds");
        pruned += batch.pruned;
        archived += batch.archived;
        after = batch.scanned_to;
        if after.is_none() {
            return (pruned, archived);
        }
    }
}

fn older_than(older_than: Duration, mode: PruneMode) -> PruneCall {
    PruneCall { jobs: JobMatch::default(), older_than, limit: 100, after: None, mode }
}

pub(crate) async fn what_ended_long_ago_is_pruned_on_both_sides(scene: Scene<'_>) {
    let archived = scene.archived(keyed("k")).await.id;
    let (worker, retried) = scene.running(draft().retry_every(MINUTE)).await;
    worker.end(&retried, failed()).await;
    scene.cancel(&[retried.id]).await;
    let other =
        scene.ended(draft().queue("q").with(|job| job.tags = vec!["t".to_owned()]), succeeded()).await.id;
    scene.advance(MINUTE).await;
    let young = scene.ended(draft(), succeeded()).await.id;
    let (waits, runs) = (scene.add(draft().after(DAY)).await, scene.running(draft()).await.1.id);

    assert_eq!(prune(&scene, &older_than(MINUTE, PruneMode::Count)).await, (3, 1));
    assert_eq!(prune(&scene, &older_than(HOUR, PruneMode::Count)).await, (1, 1));
    let tagged = JobMatch { tag: Some("t".to_owned()), ..JobMatch::default() };
    let call = PruneCall { jobs: tagged, ..older_than(MINUTE, PruneMode::Delete) };
    assert_eq!(prune(&scene, &call).await, (1, 0));
    assert!(!scene.is_there(other).await);
    let cancelled = JobMatch { statuses: vec![Status::Cancelled, Status::Failed], ..JobMatch::default() };
    let call = PruneCall { jobs: cancelled, ..older_than(Duration::ZERO, PruneMode::Count) };
    assert_eq!(prune(&scene, &call).await, (1, 0));

    // Batch by batch it comes to the same.
    let call = PruneCall { limit: 1, ..older_than(MINUTE, PruneMode::Delete) };
    assert_eq!(prune(&scene, &call).await, (2, 1));
    assert_eq!(prune(&scene, &call).await, (0, 0));
    for id in [archived, retried.id] {
        assert!(!scene.is_there(id).await);
        assert_eq!(scene.attempts(id).await, []);
    }
    for id in [young, waits, runs] {
        assert!(scene.is_there(id).await);
    }
    let again = scene.enqueue([keyed("k")]).await[0];
    assert_eq!((again.id, again.outcome, again.status), (archived, EnqueueOutcome::Existing, None));
}

pub(crate) async fn a_prune_out_of_bounds_is_refused(scene: Scene<'_>) {
    let call = older_than(DAY, PruneMode::Delete);
    for limit in [0, 100_001] {
        assert_invalid(scene.operator().await.prune(PruneCall { limit, ..call.clone() }).await, None);
    }
    let too_long = 36_601 * DAY;
    assert_invalid(
        scene.operator().await.prune(PruneCall { older_than: too_long, ..call.clone() }).await,
        None,
    );
    for status in [Status::Scheduled, Status::Blocked, Status::Pending, Status::Running] {
        let jobs = JobMatch { statuses: vec![Status::Failed, status], ..JobMatch::default() };
        assert_invalid(scene.operator().await.prune(PruneCall { jobs, ..call.clone() }).await, None);
    }
}

pub(crate) async fn who_does_not_lead_archives_nothing(scene: Scene<'_>) {
    scene.ended(draft(), succeeded()).await;
    scene.set_hot(Setting::HotPeriod(2 * HOUR)).await;
    scene.advance(3 * HOUR).await;
    let first = scene.leading().await;
    let old = first.epoch;
    first.step_down().await;
    let second = scene.leading().await;
    for sweep in [Sweep::Archive, Sweep::ArchiveExpiry, Sweep::Restamp] {
        for (leader, epoch) in [(first.worker.id, old), (second.worker.id, old)] {
            assert_not_leader(scene.store.sweep(sweep, SweepCall::new(leader, epoch, 10)).await);
        }
    }
    let own = second.call(10);
    assert_eq!(scene.store.sweep(Sweep::Archive, own).await.expect("it leads").rows, 1);
}
