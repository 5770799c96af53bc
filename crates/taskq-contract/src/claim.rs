//! Claiming.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use taskq_core::model::{Epoch, JobId, Schedule, Status, WorkerId};
use taskq_core::store::ClaimRequest;

use crate::draft::{Draft, draft, json};
use crate::scene::{DAY, HOUR, MINUTE, Scene, assert_invalid, assert_lease_lost};
use crate::worker::{LEASE, Worker, failed, snoozed, succeeded};

pub(crate) async fn a_claimed_job_runs(scene: Scene<'_>) {
    let given = draft().priority(3).max_attempts(5).with(|job| {
        job.payload = json(r#"{"n": 1}"#);
        job.payload_version = 2;
        job.start_to_close = Some(Duration::from_millis(1_500));
        job.tags = vec!["blue".to_owned()];
        job.metadata = Some(json(r#"{"m": 1}"#));
        job.trace_context = Some("trace".to_owned());
    });
    let deadline = scene.now().await + DAY;
    let id = scene.add(given.clone().deadline(deadline)).await;
    let worker = scene.worker().await;
    let (claimed, when) = scene.during(worker.claim_one()).await;
    let stored = scene.job(id).await;
    assert_eq!(stored.status, Status::Running);
    assert_eq!((stored.attempt, stored.epoch), (1, Epoch(1)));
    assert_eq!(stored.worker, Some(worker.id));
    when.assert_holds(stored.started_at);
    assert_eq!(stored.finished_at, None);

    let job = given.0;
    assert_eq!((claimed.id, &claimed.queue, &claimed.actor), (id, &job.queue, &job.actor));
    assert_eq!((claimed.attempt, claimed.epoch), (1, Epoch(1)));
    assert_eq!((claimed.priority, claimed.max_attempts), (3, 5));
    assert_eq!((claimed.payload, claimed.payload_version), (job.payload, 2));
    assert_eq!(claimed.scheduled_at, stored.scheduled_at);
    assert_eq!(claimed.schedule_to_close, Some(deadline));
    assert_eq!(claimed.start_to_close, job.start_to_close);
    assert_eq!((claimed.metadata, claimed.tags), (job.metadata, job.tags));
    assert_eq!(claimed.trace_context, job.trace_context);
}

pub(crate) async fn a_claimed_job_is_not_claimed_again(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    assert!(worker.claim(10).await.is_empty());
    worker.end(&job, succeeded()).await;
    assert!(worker.claim(10).await.is_empty());
}

pub(crate) async fn the_order_is_priority_then_time_then_id(scene: Scene<'_>) {
    let now = scene.now().await;
    let old_low = draft().priority(-1).at(now - DAY);
    let new_high = draft().priority(2).at(now - MINUTE);
    let old_high = draft().priority(2).at(now - HOUR);
    let middle_first = draft().at(now - HOUR);
    let middle_second = draft().at(now - HOUR);
    let middle_late = draft().at(now - MINUTE);
    let expected =
        [&old_high, &new_high, &middle_first, &middle_second, &middle_late, &old_low].map(Draft::id);
    scene.enqueue([old_low, middle_late, new_high, middle_second, middle_first, old_high]).await;
    assert_eq!(scene.worker().await.claim_ids(10).await, expected);
}

pub(crate) async fn every_priority_has_its_place(scene: Scene<'_>) {
    let mut jobs = [i16::MIN, -1, 0, 1, i16::MAX].map(|priority| draft().priority(priority));
    let by_priority: Vec<JobId> = jobs.iter().rev().map(Draft::id).collect();
    jobs.swap(0, 3);
    scene.enqueue(jobs).await;
    assert_eq!(scene.worker().await.claim_ids(10).await, by_priority);
}

pub(crate) async fn a_backdated_job_comes_first(scene: Scene<'_>) {
    let waiting = scene.add(draft()).await;
    scene.advance(HOUR).await;
    let backdated = scene.add(draft().at(scene.now().await - DAY)).await;
    assert_eq!(scene.worker().await.claim_ids(10).await, [backdated, waiting]);
}

pub(crate) async fn equals_in_priority_and_time_go_by_id_across_actors(scene: Scene<'_>) {
    let at = scene.now().await - HOUR;
    let jobs: Vec<Draft> = (0..30).map(|n| draft().actor(["a", "b", "c"][n * 7 % 3]).at(at)).collect();
    let by_id: Vec<JobId> = jobs.iter().map(Draft::id).collect();
    scene.enqueue(jobs.into_iter().rev()).await;
    let worker = scene.worker_for(&["q"], &["c", "a", "b"]).await;
    let mut claimed = Vec::new();
    for slots in [1, 4, 5, 10, 30] {
        claimed.extend(worker.claim_ids(slots).await);
    }
    assert_eq!(claimed, by_id);
}

pub(crate) async fn equals_of_one_call_go_by_id(scene: Scene<'_>) {
    let jobs: Vec<Draft> = (0..20).map(|n| draft().actor(["a", "b"][n % 2])).collect();
    let by_id: Vec<JobId> = jobs.iter().map(Draft::id).collect();
    scene.enqueue(jobs.into_iter().rev()).await;
    assert_eq!(scene.worker_for(&["q"], &["a", "b"]).await.claim_ids(50).await, by_id);
}

pub(crate) async fn a_backlog_of_many_actors_is_handed_out_in_true_order(scene: Scene<'_>) {
    let now = scene.now().await;
    let actors: Vec<String> = (0..8).map(|n| format!("actor-{n}")).collect();
    // Uneven lanes and many equals: the strides share no factor with the counts.
    let jobs: Vec<(Draft, _)> = (0..600_u32)
        .map(|n| {
            let lane = (n * n % 31 % 8) as usize;
            let priority = i16::try_from(n * 7 % 4).expect("small");
            let at = now - MINUTE * (n * 13 % 50 + 1);
            let job = draft().actor(&actors[lane]).priority(priority).at(at);
            let place = (Reverse(priority), at, job.id());
            (job, place)
        })
        .collect();
    let mut places: Vec<_> = jobs.iter().map(|(_, place)| *place).collect();
    places.sort_unstable();
    scene.enqueue(jobs.into_iter().map(|(job, _)| job)).await;
    let names: Vec<&str> = actors.iter().map(String::as_str).collect();
    let worker = scene.worker_for(&["q"], &names).await;
    let mut claimed = Vec::new();
    for slots in [1, 7, 50, 50, 200, 1_000] {
        let jobs = worker.claim_ids(slots).await;
        assert_eq!(jobs.len(), (slots as usize).min(600 - claimed.len()), "the claim is full");
        claimed.extend(jobs);
    }
    let expected: Vec<JobId> = places.into_iter().map(|(_, _, id)| id).collect();
    assert_eq!(claimed, expected);
}

pub(crate) async fn a_claim_returns_at_most_its_slots(scene: Scene<'_>) {
    let ids = scene.add_all((0..5).map(|_| draft())).await;
    let worker = scene.worker().await;
    assert_eq!(worker.claim_ids(2).await, ids[..2]);
    assert_eq!(worker.claim_ids(1).await, ids[2..3]);
    assert_eq!(worker.claim_ids(10_000).await, ids[3..]);
    assert!(worker.claim(10_000).await.is_empty());
}

pub(crate) async fn any_oversample_yields_full_claims(scene: Scene<'_>) {
    let ids = scene.add_all((0..40).map(|n| draft().actor(["a", "b"][n % 2]))).await;
    let worker = scene.worker_for(&["q"], &["a", "b"]).await;
    for (round, oversample) in [1, 2, 3, 100].into_iter().enumerate() {
        let request = ClaimRequest { oversample, ..worker.request(10) };
        let claimed = scene.store.claim(request).await.expect("a valid claim");
        let claimed: Vec<JobId> = claimed.jobs.iter().map(|job| job.id).collect();
        assert_eq!(claimed, ids[round * 10..][..10], "oversample {oversample}");
    }
}

pub(crate) async fn each_queue_has_its_own_slots_and_comes_as_asked(scene: Scene<'_>) {
    let high = |name| draft().queue(name).priority(9);
    let first = scene.add_all([draft().queue("one"), draft().queue("one"), draft().queue("one")]).await;
    let second = scene.add_all([high("two"), high("two"), high("two")]).await;
    scene.add(draft().queue("three")).await;
    let worker = scene.worker_for(&["one", "two", "three"], &["a"]).await;
    let claimed = worker.claim_from(&[("one", 2), ("two", 1)]).await;
    let claimed: Vec<JobId> = claimed.iter().map(|job| job.id).collect();
    assert_eq!(claimed, [first[0], first[1], second[0]]);
    let claimed = worker.claim_from(&[("two", 5), ("one", 5)]).await;
    let claimed: Vec<JobId> = claimed.iter().map(|job| job.id).collect();
    assert_eq!(claimed, [second[1], second[2], first[2]]);
}

pub(crate) async fn only_registered_actors_are_served(scene: Scene<'_>) {
    let mine = scene.add_all([draft().actor("mine"), draft().actor("mine")]).await;
    scene.enqueue([draft().actor("other").priority(9), draft().queue("elsewhere").actor("mine")]).await;
    let worker = scene.worker_for(&["q", "elsewhere"], &["mine", "idle"]).await;
    assert_eq!(worker.claim_ids(10).await, mine);
}

pub(crate) async fn a_scheduled_job_is_not_claimed_before_it_is_promoted(scene: Scene<'_>) {
    let id = scene.add(draft().after(HOUR)).await;
    let worker = scene.worker().await;
    assert!(worker.claim(10).await.is_empty());
    scene.advance(HOUR).await;
    let late = scene.worker().await;
    assert!(late.claim(10).await.is_empty(), "only promoting makes it ready");
    scene.promote_all().await;
    assert_eq!(late.claim_ids(10).await, [id]);
}

pub(crate) async fn workers_get_disjoint_jobs(scene: Scene<'_>) {
    let ids = scene.add_all((0..6).map(|_| draft())).await;
    let (left, right) = (scene.worker().await, scene.worker().await);
    assert_eq!(left.claim_ids(2).await, ids[..2]);
    assert_eq!(right.claim_ids(2).await, ids[2..4]);
    assert_eq!(left.claim_ids(2).await, ids[4..]);
    assert!(right.claim(2).await.is_empty());
}

pub(crate) async fn workers_that_claim_at_once_get_disjoint_jobs(scene: Scene<'_>) {
    let ids = scene.add_all((0..300).map(|n| draft().actor(["a", "b", "c"][n % 3]))).await;
    let worker = async || scene.worker_for(&["q"], &["a", "b", "c"]).await;
    let workers: [Worker<'_>; 4] = [worker().await, worker().await, worker().await, worker().await];
    let mut claimed = Vec::new();
    // Each round hands out at least one job, else the store has lost some.
    while claimed.len() < ids.len() {
        let [a, b, c, d] = &workers;
        let round = tokio::join!(a.claim(7), b.claim(7), c.claim(7), d.claim(7));
        let before = claimed.len();
        for (worker, jobs) in workers.iter().zip([round.0, round.1, round.2, round.3]) {
            claimed.extend(jobs.iter().map(|job| (job.id, worker.id)));
        }
        assert!(claimed.len() > before, "{before} of {} jobs were claimed, then none", ids.len());
    }
    let distinct: BTreeSet<JobId> = claimed.iter().map(|(id, _)| *id).collect();
    assert_eq!(distinct, ids.into_iter().collect());
    assert_eq!(distinct.len(), claimed.len(), "no job went to two workers");
    for (id, worker) in claimed.into_iter().step_by(37) {
        assert_eq!(scene.job(id).await.worker, Some(worker));
    }
}

pub(crate) async fn an_unknown_worker_has_no_lease_even_when_nothing_is_ready(scene: Scene<'_>) {
    let known = scene.worker().await;
    let request = ClaimRequest { worker: WorkerId::new(), ..known.request(1) };
    assert_lease_lost(scene.store.claim(request.clone()).await);
    let id = scene.add(draft()).await;
    assert_lease_lost(scene.store.claim(request).await);
    assert_eq!(scene.status(id).await, Status::Pending);
}

pub(crate) async fn an_expired_worker_claims_nothing(scene: Scene<'_>) {
    let worker = scene.worker().await;
    scene.advance(LEASE).await;
    assert_lease_lost(worker.try_claim(1).await);
    let id = scene.add(draft()).await;
    assert_lease_lost(worker.try_claim(1).await);
    assert_eq!(scene.status(id).await, Status::Pending);
    assert_eq!(scene.job(id).await.epoch, Epoch(0));
}

pub(crate) async fn a_released_worker_claims_nothing(scene: Scene<'_>) {
    let worker = scene.worker().await;
    scene.add(draft()).await;
    worker.release().await;
    assert_lease_lost(worker.try_claim(1).await);
}

pub(crate) async fn a_queue_that_was_not_registered_is_refused(scene: Scene<'_>) {
    let id = scene.add(draft()).await;
    let worker = scene.worker().await;
    let answer = scene.store.claim(worker.request_from(&[("q", 1), ("other", 1)])).await;
    assert!(answer.is_err());
    assert_invalid(answer.map_err(without_index), None);
    assert_eq!(scene.status(id).await, Status::Pending, "nothing was claimed from the other queue");
}

pub(crate) async fn a_claim_out_of_bounds_is_refused(scene: Scene<'_>) {
    let id = scene.add(draft()).await;
    let worker = scene.worker().await;
    let request = |slots| worker.request(slots);
    let bad = [
        ("slots 0", request(0)),
        ("slots", request(10_001)),
        ("slots beyond any number", request(u32::MAX)),
        ("slots 0 of a second queue", worker.request_from(&[("q", 1), ("q", 0)])),
        ("no queue", worker.request_from(&[])),
        ("a queue twice", worker.request_from(&[("q", 1), ("q", 1)])),
        ("oversample 0", ClaimRequest { oversample: 0, ..request(1) }),
        ("oversample", ClaimRequest { oversample: 101, ..request(1) }),
        ("lease 0", ClaimRequest { lease: Duration::ZERO, ..request(1) }),
        ("lease short", ClaimRequest { lease: Duration::from_millis(999), ..request(1) }),
        ("lease long", ClaimRequest { lease: DAY + Duration::from_secs(1), ..request(1) }),
    ];
    for (what, request) in bad {
        let answer = scene.store.claim(request).await;
        assert!(answer.is_err(), "{what} is refused");
        assert_invalid(answer.map_err(without_index), None);
    }
    assert_eq!(scene.job(id).await.epoch, Epoch(0), "nothing was claimed");
    let widest = ClaimRequest { oversample: 100, lease: DAY, ..request(10_000) };
    assert_eq!(scene.store.claim(widest).await.expect("within bounds").jobs.len(), 1);
}

pub(crate) async fn a_claim_renews_a_lease_of_which_less_than_half_is_left(scene: Scene<'_>) {
    scene.add_all([draft(), draft()]).await;
    let worker = scene.worker().await;
    scene.advance(LEASE * 6 / 10).await;
    let (_, when) = scene.during(worker.claim_one()).await;
    when.later(LEASE).assert_holds(worker.summary().await.expect("alive").lease_expires_at);
    scene.advance(LEASE * 6 / 10).await;
    worker.claim_one().await;
}

pub(crate) async fn a_claim_leaves_a_lease_of_which_half_is_left(scene: Scene<'_>) {
    scene.add(draft()).await;
    let (worker, when) = scene.during(scene.worker()).await;
    scene.advance(LEASE * 4 / 10).await;
    worker.claim_one().await;
    when.later(LEASE).assert_holds(worker.summary().await.expect("alive").lease_expires_at);
}

pub(crate) async fn an_empty_claim_renews_nothing(scene: Scene<'_>) {
    let (worker, when) = scene.during(scene.worker()).await;
    scene.advance(LEASE * 6 / 10).await;
    assert!(worker.claim(1).await.is_empty());
    when.later(LEASE).assert_holds(worker.summary().await.expect("alive").lease_expires_at);
    scene.advance(LEASE * 6 / 10).await;
    assert_lease_lost(worker.try_claim(1).await);
}

pub(crate) async fn a_job_past_its_deadline_ends_instead_of_starting(scene: Scene<'_>) {
    let late = scene.add(draft().deadline(scene.now().await + HOUR)).await;
    let in_time = scene.add(draft().deadline(scene.now().await + DAY)).await;
    scene.advance(HOUR).await;
    let worker = scene.worker().await;
    let (claimed, when) = scene.during(worker.claim_ids(10)).await;
    assert_eq!(claimed, [in_time]);
    let ended = scene.job(late).await;
    assert_eq!(ended.status, Status::Failed);
    let error = ended.error.expect("the reason is recorded");
    assert_eq!(error.class, "deadline");
    assert_eq!(error.message, "the deadline passed before an attempt started");
    assert_eq!((ended.attempt, ended.epoch), (0, Epoch(0)));
    assert_eq!((ended.worker, ended.started_at), (None, None));
    when.assert_holds(ended.finished_at);
    assert!(scene.attempts(late).await.is_empty());
    assert!(worker.claim(10).await.is_empty());
}

pub(crate) async fn a_deadline_that_passes_between_attempts_keeps_their_count(scene: Scene<'_>) {
    let deadline = scene.now().await + MINUTE;
    let (worker, job) = scene.running(draft().deadline(deadline).retry_every(Duration::ZERO)).await;
    assert_eq!(worker.end(&job, failed()).await, Status::Pending);
    scene.advance(MINUTE).await;
    assert!(worker.claim(10).await.is_empty());
    let ended = scene.job(job.id).await;
    assert_eq!(ended.status, Status::Failed);
    assert_eq!(ended.error.expect("the reason is recorded").class, "deadline");
    assert_eq!((ended.attempt, ended.epoch), (1, Epoch(1)));
    assert_eq!(scene.attempts(job.id).await.len(), 1);
}

pub(crate) async fn jobs_past_their_deadline_do_not_hide_the_others(scene: Scene<'_>) {
    let now = scene.now().await;
    let late = scene.add_all((0..30).map(|_| draft().priority(1).at(now - DAY).deadline(now - HOUR))).await;
    let in_time = scene.add_all([draft(), draft()]).await;
    let worker = scene.worker().await;
    let mut claimed = Vec::new();
    // A store may bound what it ends in one claim, but every claim gets further.
    for _ in 0..=late.len() {
        claimed.extend(worker.claim_ids(2).await);
    }
    assert_eq!(claimed, in_time);
    for id in late {
        assert_eq!(scene.status(id).await, Status::Failed);
    }
}

pub(crate) async fn a_claim_that_only_ends_late_jobs_renews_nothing(scene: Scene<'_>) {
    let now = scene.now().await;
    scene.add(draft().at(now - DAY).deadline(now - HOUR)).await;
    let (worker, when) = scene.during(scene.worker()).await;
    scene.advance(LEASE * 6 / 10).await;
    assert!(worker.claim(1).await.is_empty());
    when.later(LEASE).assert_holds(worker.summary().await.expect("alive").lease_expires_at);
}

pub(crate) async fn every_claim_grows_the_epoch(scene: Scene<'_>) {
    let (worker, first) = scene.running(draft().retry_every(Duration::ZERO)).await;
    worker.end(&first, failed()).await;
    let second = worker.claim_one().await;
    assert_eq!((second.id, second.epoch, second.attempt), (first.id, Epoch(2), 2));
    worker.end(&second, snoozed(Duration::ZERO)).await;
    let third = worker.claim_one().await;
    assert_eq!((third.id, third.epoch, third.attempt), (first.id, Epoch(3), 2));
}

pub(crate) async fn a_retried_job_is_claimed_in_its_new_place(scene: Scene<'_>) {
    let (worker, first) = scene.running(draft().with(|job| job.schedule = Schedule::Now)).await;
    let waiting = scene.add(draft()).await;
    scene.advance(MINUTE).await;
    worker.end(&first, snoozed(Duration::ZERO)).await;
    assert_eq!(worker.claim_ids(10).await, [waiting, first.id]);
}

/// A refusal of one of several queues may name it.
fn without_index(error: taskq_core::store::StoreError) -> taskq_core::store::StoreError {
    match error {
        taskq_core::store::StoreError::Invalid { message, .. } => {
            taskq_core::store::StoreError::invalid(message)
        }
        other => other,
    }
}
