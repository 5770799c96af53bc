//! Idempotency keys.

use taskq_core::model::{
    EnqueueOutcome, Enqueued, IdempotencyKey, JobId, NAME_LIMIT, NewJob, OnFinished, Outcome, Status,
};

use crate::draft::{Draft, draft, json};
use crate::scene::{DAY, HOUR, MINUTE, Scene, assert_invalid};
use crate::worker::{abandoned, cancelled, failed, failed_for_good, retry_after, snoozed, succeeded};

use EnqueueOutcome::{Created, Existing, Replaced};

impl Draft {
    fn key(self, key: &str) -> Self {
        self.with(|job| job.idempotency_key = Some(IdempotencyKey::new(key).expect("a valid key")))
    }

    fn run_again(self) -> Self {
        self.with(|job| job.on_finished = OnFinished::RunAgain)
    }
}

impl Scene<'_> {
    async fn enqueue_one(&self, job: Draft) -> Enqueued {
        let mut answers = self.enqueue([job]).await;
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    /// Asserts that a call wrote nothing under this id.
    async fn assert_absent(&self, id: JobId) {
        assert_eq!(self.store.job(id).await.expect("reading succeeds"), None, "nothing was written");
    }
}

fn answer(id: JobId, outcome: EnqueueOutcome, status: Status) -> Enqueued {
    Enqueued { id, outcome, status: Some(status) }
}

pub(crate) async fn a_key_lets_one_job_in(scene: Scene<'_>) {
    let first = draft().key("k").with(|job| job.payload = json("1"));
    assert_eq!(scene.enqueue_one(first.clone()).await, answer(first.id(), Created, Status::Pending));
    let before = scene.job(first.id()).await;
    let second = draft().key("k").priority(9).queue("other").after(HOUR).with(|job| job.payload = json("2"));
    assert_eq!(scene.enqueue_one(second.clone()).await, answer(first.id(), Existing, Status::Pending));
    scene.assert_absent(second.id()).await;
    assert_eq!(scene.job(first.id()).await, before);
    assert_eq!(scene.worker().await.claim_ids(10).await, [first.id()]);
}

pub(crate) async fn a_call_with_a_key_may_be_repeated(scene: Scene<'_>) {
    let jobs = [draft().key("k"), draft(), draft().key("l").run_again()];
    let created = scene.enqueue(jobs.clone()).await;
    assert!(created.iter().all(|answer| answer.outcome == Created));
    let again = scene.enqueue(jobs).await;
    for (created, again) in created.into_iter().zip(again) {
        assert_eq!(again, Enqueued { outcome: Existing, ..created });
    }
    assert_eq!(scene.worker().await.claim(10).await.len(), 3);
}

pub(crate) async fn the_answer_tells_where_the_keys_job_stands(scene: Scene<'_>) {
    let waiting = scene.enqueue_one(draft().key("waiting").after(HOUR)).await;
    let repeated = scene.enqueue_one(draft().key("waiting")).await;
    assert_eq!(repeated, answer(waiting.id, Existing, Status::Scheduled));

    let cases = [
        (failed(), Status::Scheduled),
        (retry_after(HOUR), Status::Scheduled),
        (snoozed(HOUR), Status::Scheduled),
        (succeeded(), Status::Succeeded),
        (failed_for_good(), Status::Failed),
        (cancelled(), Status::Cancelled),
        (abandoned(), Status::Abandoned),
        (Outcome::Released, Status::Pending),
    ];
    for (index, (outcome, status)) in cases.into_iter().enumerate() {
        let key = format!("key {index}");
        let (worker, job) = scene.running(draft().key(&key).retry_every(HOUR)).await;
        let running = scene.enqueue_one(draft().key(&key)).await;
        assert_eq!(running, answer(job.id, Existing, Status::Running));
        worker.end(&job, outcome).await;
        let next = draft().key(&key);
        assert_eq!(scene.enqueue_one(next.clone()).await, answer(job.id, Existing, status));
        scene.assert_absent(next.id()).await;
    }
}

pub(crate) async fn keys_are_told_apart_exactly(scene: Scene<'_>) {
    let long = "k".repeat(NAME_LIMIT);
    for key in ["k", "K", "k ", "é", "e\u{301}", "k'", "%", long.as_str(), &long[1..]] {
        let id = scene.enqueue_one(draft().key(key)).await.id;
        let again = scene.enqueue_one(draft().key(key)).await;
        assert_eq!(again, answer(id, Existing, Status::Pending), "{key}");
    }
    assert_eq!(scene.worker().await.claim(100).await.len(), 9);
}

pub(crate) async fn each_actor_has_its_own_keys(scene: Scene<'_>) {
    let jobs = [draft().key("k"), draft().actor("b").key("k")];
    let answers = scene.enqueue(jobs.clone()).await;
    let (of_a, of_b) = (jobs[0].id(), jobs[1].id());
    assert_eq!(answers, [answer(of_a, Created, Status::Pending), answer(of_b, Created, Status::Pending)]);
    let answers =
        scene.enqueue([draft().actor("b").key("k"), draft().key("k"), draft().actor("c").key("k")]).await;
    assert_eq!(answers[0], answer(of_b, Existing, Status::Pending));
    assert_eq!(answers[1], answer(of_a, Existing, Status::Pending));
    assert_eq!(answers[2].outcome, Created);
    let elsewhere = scene.enqueue_one(draft().queue("other").key("k")).await;
    assert_eq!(elsewhere, answer(of_a, Existing, Status::Pending), "the queue makes no difference");
}

pub(crate) async fn a_key_expires_after_seven_days(scene: Scene<'_>) {
    for end_first in [false, true] {
        let first = scene.add(draft().key("k")).await;
        if end_first {
            let worker = scene.worker().await;
            worker.end(&worker.claim_one().await, succeeded()).await;
        }
        let status = scene.status(first).await;
        scene.advance(3 * DAY).await;
        assert_eq!(scene.enqueue_one(draft().key("k")).await, answer(first, Existing, status));
        scene.advance(95 * HOUR).await;
        assert_eq!(scene.enqueue_one(draft().key("k")).await, answer(first, Existing, status));
        scene.advance(HOUR).await;
        let second = draft().key("k");
        let created = answer(second.id(), Created, Status::Pending);
        assert_eq!(scene.enqueue_one(second.clone()).await, created, "using it did not prolong it");
        scene.advance(167 * HOUR).await;
        let again = scene.enqueue_one(draft().key("k").run_again()).await;
        assert_eq!(again, answer(second.id(), Existing, Status::Pending), "it is the new job's for as long");
        scene.advance(HOUR).await;
        scene.cancel(&[first, second.id()]).await;
    }
}

pub(crate) async fn a_key_that_expired_is_not_taken_over_but_free(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft().key("k")).await;
    worker.end(&job, succeeded()).await;
    scene.advance(7 * DAY).await;
    let next = draft().key("k").run_again();
    assert_eq!(scene.enqueue_one(next.clone()).await, answer(next.id(), Created, Status::Pending));
}

pub(crate) async fn run_again_replaces_a_job_that_has_ended(scene: Scene<'_>) {
    for (index, outcome) in [succeeded(), failed_for_good(), cancelled(), abandoned()].into_iter().enumerate()
    {
        let kind = outcome.kind();
        let key = format!("key {index}");
        let (worker, job) = scene.running(draft().key(&key)).await;
        worker.end(&job, outcome).await;
        let before = scene.job(job.id).await;
        let next = draft().key(&key).run_again();
        let replaced = answer(next.id(), Replaced, Status::Pending);
        assert_eq!(scene.enqueue_one(next.clone()).await, replaced, "{kind:?}");
        assert_eq!(scene.job(job.id).await, before, "{kind:?}: the ended job stays as it is");
        let again = scene.enqueue_one(draft().key(&key).run_again()).await;
        assert_eq!(again, answer(next.id(), Existing, Status::Pending), "{kind:?}");
        let claimed = worker.claim_one().await;
        assert_eq!(claimed.id, next.id(), "{kind:?}");
        worker.end(&claimed, succeeded()).await;
    }
    let (_worker, job) = scene.expired(draft().key("crash").max_attempts(1)).await;
    scene.rescue().await;
    assert_eq!(scene.status(job.id).await, Status::Crashed);
    let next = draft().key("crash").run_again().after(HOUR);
    assert_eq!(scene.enqueue_one(next.clone()).await, answer(next.id(), Replaced, Status::Scheduled));
    scene.cancel(&[next.id()]).await;
    let last = draft().key("crash").run_again();
    assert_eq!(scene.enqueue_one(last.clone()).await, answer(last.id(), Replaced, Status::Pending));
}

pub(crate) async fn run_again_leaves_a_job_that_has_not_ended(scene: Scene<'_>) {
    let waiting = scene.enqueue_one(draft().key("k").run_again().after(HOUR)).await;
    assert_eq!(waiting.outcome, Created, "the key was free");
    let again = async |status| {
        let next = draft().key("k").run_again();
        assert_eq!(scene.enqueue_one(next.clone()).await, answer(waiting.id, Existing, status));
        scene.assert_absent(next.id()).await;
    };
    again(Status::Scheduled).await;
    scene.advance(HOUR).await;
    scene.promote_all().await;
    again(Status::Pending).await;
    let worker = scene.worker().await;
    let job = worker.claim_one().await;
    again(Status::Running).await;
    worker.end(&job, failed_for_good()).await;
    scene.retry(&[waiting.id]).await;
    again(Status::Pending).await;
}

pub(crate) async fn a_key_that_was_taken_over_lasts_seven_days_more(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft().key("k")).await;
    worker.end(&job, succeeded()).await;
    scene.advance(6 * DAY).await;
    let next = scene.enqueue_one(draft().key("k").run_again()).await;
    assert_eq!(next.outcome, Replaced);
    scene.advance(6 * DAY).await;
    assert_eq!(scene.enqueue_one(draft().key("k")).await, answer(next.id, Existing, Status::Pending));
    scene.advance(DAY).await;
    assert_eq!(scene.enqueue_one(draft().key("k")).await.outcome, Created);
}

pub(crate) async fn run_again_without_a_key_is_refused(scene: Scene<'_>) {
    let good = draft();
    assert_invalid(scene.try_enqueue([good.clone(), draft().run_again()]).await, Some(1));
    scene.assert_absent(good.id()).await;
}

pub(crate) async fn of_one_key_in_a_call_the_first_wins(scene: Scene<'_>) {
    let jobs =
        [draft().key("k"), draft().key("k"), draft().key("l").after(HOUR), draft().key("k").run_again()];
    let ids: Vec<JobId> = jobs.iter().map(Draft::id).collect();
    let expected = [
        answer(ids[0], Created, Status::Pending),
        answer(ids[0], Existing, Status::Pending),
        answer(ids[2], Created, Status::Scheduled),
        answer(ids[0], Existing, Status::Pending),
    ];
    assert_eq!(scene.enqueue(jobs).await, expected);
    scene.assert_absent(ids[1]).await;
    scene.assert_absent(ids[3]).await;
}

pub(crate) async fn of_one_key_in_a_call_one_job_runs_again(scene: Scene<'_>) {
    let (worker, ended) = scene.running(draft().key("k")).await;
    worker.end(&ended, succeeded()).await;
    let jobs = [draft().key("k").run_again(), draft().key("k").run_again(), draft().key("k")];
    let ids: Vec<JobId> = jobs.iter().map(Draft::id).collect();
    let expected = [
        answer(ids[0], Replaced, Status::Pending),
        answer(ids[0], Existing, Status::Pending),
        answer(ids[0], Existing, Status::Pending),
    ];
    assert_eq!(scene.enqueue(jobs).await, expected);
    assert_eq!(worker.claim_ids(10).await, [ids[0]]);
}

pub(crate) async fn jobs_with_and_without_keys_mix(scene: Scene<'_>) {
    let (worker, ended) = scene.running(draft().key("ended")).await;
    worker.end(&ended, succeeded()).await;
    let there = scene.enqueue([draft().key("there").after(HOUR), draft()]).await;
    let plain = Draft(NewJob { id: there[1].id, ..draft().0 });
    let jobs = [
        draft(),
        draft().key("there"),
        draft().key("new"),
        plain,
        draft().key("ended").run_again(),
        draft().key("new"),
        draft().after(HOUR),
        draft().key("ended"),
    ];
    let ids: Vec<JobId> = jobs.iter().map(Draft::id).collect();
    let expected = [
        answer(ids[0], Created, Status::Pending),
        answer(there[0].id, Existing, Status::Scheduled),
        answer(ids[2], Created, Status::Pending),
        answer(ids[3], Existing, Status::Pending),
        answer(ids[4], Replaced, Status::Pending),
        answer(ids[2], Existing, Status::Pending),
        answer(ids[6], Created, Status::Scheduled),
        answer(ids[4], Existing, Status::Pending),
    ];
    assert_eq!(scene.enqueue(jobs).await, expected);
    for absent in [ids[1], ids[5], ids[7]] {
        scene.assert_absent(absent).await;
    }
}

pub(crate) async fn a_taken_key_counts_before_an_id(scene: Scene<'_>) {
    let of_key = scene.add(draft().key("k")).await;
    let other = scene.add(draft().after(HOUR)).await;
    let both = Draft(NewJob { id: other, ..draft().key("k").0 });
    assert_eq!(scene.enqueue_one(both).await, answer(of_key, Existing, Status::Pending));
    assert_eq!(scene.status(other).await, Status::Scheduled);
}

pub(crate) async fn a_refused_call_takes_no_key(scene: Scene<'_>) {
    let key = || draft().key("k");
    assert_invalid(scene.try_enqueue([key(), draft().max_attempts(0)]).await, Some(1));
    assert_eq!(scene.enqueue_one(key()).await.outcome, Created);
    assert_invalid(scene.try_enqueue([key().max_attempts(0)]).await, Some(0));

    let (worker, job) = scene.running(draft().actor("a").key("over").priority(1)).await;
    worker.end(&job, succeeded()).await;
    let again = || draft().key("over").run_again();
    assert_invalid(scene.try_enqueue([again(), draft().max_attempts(0)]).await, Some(1));
    assert_eq!(scene.enqueue_one(draft().key("over")).await, answer(job.id, Existing, Status::Succeeded));
    assert_eq!(scene.enqueue_one(again()).await.outcome, Replaced);
}

pub(crate) async fn of_calls_at_once_with_one_key_one_wins(scene: Scene<'_>) {
    for round in 0..5 {
        let job = || draft().key(&format!("key {round}"));
        let enqueue = || scene.enqueue_one(job());
        let (a, b, c, d) = tokio::join!(enqueue(), enqueue(), enqueue(), enqueue());
        let answers = [a, b, c, d];
        let created: Vec<_> = answers.iter().filter(|answer| answer.outcome == Created).collect();
        assert_eq!(created.len(), 1, "{answers:?}");
        assert!(answers.iter().all(|answer| answer.id == created[0].id), "{answers:?}");
        scene.advance(MINUTE).await;
    }
    assert_eq!(scene.worker().await.claim(100).await.len(), 5);
}

pub(crate) async fn of_calls_at_once_one_job_runs_again(scene: Scene<'_>) {
    let (worker, ended) = scene.running(draft().key("k")).await;
    worker.end(&ended, succeeded()).await;
    let enqueue = || scene.enqueue_one(draft().key("k").run_again());
    let (a, b, c, d) = tokio::join!(enqueue(), enqueue(), enqueue(), enqueue());
    let answers = [a, b, c, d];
    let replaced: Vec<_> = answers.iter().filter(|answer| answer.outcome == Replaced).collect();
    assert_eq!(replaced.len(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.id == replaced[0].id), "{answers:?}");
    assert_eq!(worker.claim(10).await.len(), 1);
}
