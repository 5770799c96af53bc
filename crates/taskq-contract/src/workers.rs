//! Worker sessions.

use std::time::Duration;

use taskq_core::model::{Epoch, JobId, Outcome, OutcomeKind, SettleReason, Status, WorkerId};
use taskq_core::store::{Beat, BeatReply, Count, Progress, Registration};

use crate::draft::{actor, draft, json, queue};
use crate::scene::{DAY, HOUR, MINUTE, Scene, assert_invalid, assert_lease_lost};
use crate::worker::{LEASE, of, registration, succeeded};

pub(crate) async fn a_registered_worker_is_listed(scene: Scene<'_>) {
    let (worker, when) = scene.during(scene.worker_for(&["two", "one"], &["b", "a"])).await;
    let summary = worker.summary().await.expect("it is alive");
    let mut queues = summary.queues;
    queues.sort();
    assert_eq!(queues, [queue("one"), queue("two")]);
    let mut actors = summary.actors;
    actors.sort();
    assert_eq!(actors, [actor("a"), actor("b")]);
    when.assert_holds(summary.started_at);
    when.later(LEASE).assert_holds(summary.lease_expires_at);
    assert_eq!(summary.running, Count::of(0));
}

pub(crate) async fn a_registration_out_of_bounds_is_refused(scene: Scene<'_>) {
    let usual = || registration(&["q"], &["a"]);
    let bad = [
        ("lease 0", Registration { lease: Duration::ZERO, ..usual() }),
        ("lease short", Registration { lease: Duration::from_micros(999_999), ..usual() }),
        ("lease long", Registration { lease: DAY + Duration::from_secs(1), ..usual() }),
        ("lease beyond any time", Registration { lease: Duration::MAX, ..usual() }),
        ("no queue", registration(&[], &["a"])),
        ("no actor", registration(&["q"], &[])),
        ("info", Registration { info: Some(json("[1]")), ..usual() }),
    ];
    for (what, registration) in bad {
        let worker = registration.worker;
        let answer = scene.store.register_worker(registration).await;
        assert!(answer.is_err(), "{what} is refused");
        assert_invalid(answer, None);
        let workers = scene.stats().await.workers;
        assert!(workers.iter().all(|summary| summary.worker != worker), "{what}: no session began");
    }
    for lease in [Duration::from_secs(1), DAY] {
        let info = Some(json(r#"{"host": "here"}"#));
        let answer = scene.store.register_worker(Registration { lease, info, ..usual() }).await;
        answer.expect("a lease at its bound");
    }
}

pub(crate) async fn a_session_needs_a_new_id(scene: Scene<'_>) {
    let worker = scene.worker().await;
    let again = || Registration { worker: worker.id, ..registration(&["other"], &["other"]) };
    assert_invalid(scene.store.register_worker(again()).await, None);
    assert_eq!(worker.summary().await.expect("alive").queues, [queue("q")], "the first one is as it was");
    scene.advance(LEASE).await;
    assert_invalid(scene.store.register_worker(again()).await, None);
    assert_lease_lost(worker.try_beat().await);
}

pub(crate) async fn a_name_given_twice_counts_once(scene: Scene<'_>) {
    let ids = scene.add_all([draft(), draft(), draft()]).await;
    let worker = scene.worker_for(&["q", "q"], &["a", "a"]).await;
    assert_eq!(worker.claim_ids(2).await, ids[..2]);
    assert_eq!(worker.claim_ids(10).await, ids[2..]);
    let queues = scene.store.queues().await.expect("reading succeeds");
    assert_eq!(queues[0].workers, 1);
}

pub(crate) async fn a_beat_renews_the_lease(scene: Scene<'_>) {
    let worker = scene.worker().await;
    for _ in 0..3 {
        scene.advance(LEASE * 6 / 10).await;
        let (reply, when) = scene.during(worker.try_beat()).await;
        assert_eq!(reply.expect("alive"), BeatReply::default());
        when.later(LEASE).assert_holds(worker.summary().await.expect("alive").lease_expires_at);
    }
}

pub(crate) async fn a_beat_sets_the_lease_that_it_names(scene: Scene<'_>) {
    let worker = scene.worker().await;
    let (reply, when) =
        scene.during(scene.store.heartbeat(Beat { lease: MINUTE, ..worker.plain_beat() })).await;
    reply.expect("alive");
    when.later(MINUTE).assert_holds(worker.summary().await.expect("alive").lease_expires_at);
    scene.advance(MINUTE).await;
    assert_lease_lost(worker.try_beat().await);
}

pub(crate) async fn a_beat_never_revives_a_session(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    scene.advance(LEASE).await;
    for _ in 0..2 {
        assert_lease_lost(worker.try_beat().await);
    }
    assert_lease_lost(worker.try_claim(1).await);
    assert_eq!(worker.settle(&job, succeeded()).await.reason, SettleReason::Stale);
    assert_eq!(worker.summary().await, None, "only live sessions are listed");
}

pub(crate) async fn an_unknown_or_released_worker_cannot_beat(scene: Scene<'_>) {
    let worker = scene.worker().await;
    assert_lease_lost(scene.store.heartbeat(Beat { worker: WorkerId::new(), ..worker.plain_beat() }).await);
    worker.release().await;
    assert_lease_lost(worker.try_beat().await);
}

pub(crate) async fn a_beat_out_of_bounds_is_refused(scene: Scene<'_>) {
    let (worker, when) = scene.during(scene.worker()).await;
    let beat = || worker.plain_beat();
    let bad = [
        ("lease 0", Beat { lease: Duration::ZERO, ..beat() }),
        ("lease short", Beat { lease: Duration::from_millis(999), ..beat() }),
        ("lease long", Beat { lease: DAY + Duration::from_secs(1), ..beat() }),
        ("leadership short", Beat { leadership: Some(Duration::from_millis(999)), ..beat() }),
        ("leadership long", Beat { leadership: Some(DAY + Duration::from_secs(1)), ..beat() }),
    ];
    scene.advance(MINUTE).await;
    for (what, beat) in bad {
        let answer = scene.store.heartbeat(beat).await;
        assert!(answer.is_err(), "{what} is refused");
        assert_invalid(answer, None);
    }
    when.later(LEASE).assert_holds(worker.summary().await.expect("alive").lease_expires_at);
    assert_eq!(scene.stats().await.leader, None);
}

pub(crate) async fn progress_is_stored_with_the_running_attempt(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    worker.note(&job, r#"{"done": 1}"#).await.expect("alive");
    assert_eq!(scene.job(job.id).await.progress, Some(json(r#"{"done": 1}"#)));
    worker.note(&job, "\"nearly\"").await.expect("alive");
    assert_eq!(scene.job(job.id).await.progress, Some(json("\"nearly\"")), "the last note stands");
}

pub(crate) async fn progress_of_several_jobs_comes_in_one_beat(scene: Scene<'_>) {
    let worker = scene.worker().await;
    scene.enqueue([draft(), draft(), draft()]).await;
    let jobs = worker.claim(3).await;
    let notes = jobs.iter().zip(["1", "2", "3"]).map(|(job, text)| Progress {
        id: job.id,
        epoch: job.epoch,
        progress: json(text),
    });
    let beat = Beat { progress: notes.collect(), ..worker.plain_beat() };
    scene.store.heartbeat(beat).await.expect("alive");
    for (job, text) in jobs.iter().zip(["1", "2", "3"]) {
        assert_eq!(scene.job(job.id).await.progress, Some(json(text)));
    }
}

pub(crate) async fn progress_of_anything_but_the_running_attempt_is_passed_over(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    let other = scene.worker().await;
    other.note(&job, "\"not mine\"").await.expect("the beat itself is fine");
    let note = |id, epoch| Progress { id, epoch, progress: json("\"stale\"") };
    let stale = vec![note(job.id, Epoch(0)), note(job.id, Epoch(2)), note(JobId::new(), Epoch(1))];
    scene.store.heartbeat(Beat { progress: stale, ..worker.plain_beat() }).await.expect("alive");
    assert_eq!(scene.job(job.id).await.progress, None);

    worker.end(&job, succeeded()).await;
    worker.note(&job, "\"late\"").await.expect("alive");
    assert_eq!(scene.job(job.id).await.progress, None);
}

pub(crate) async fn progress_of_an_expired_session_is_refused(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    scene.advance(LEASE).await;
    assert_lease_lost(worker.note(&job, "1").await);
    assert_eq!(scene.job(job.id).await.progress, None);
}

pub(crate) async fn held_lists_what_a_worker_runs_in_the_order_it_started(scene: Scene<'_>) {
    let worker = scene.worker().await;
    let ids = scene.add_all([draft(), draft(), draft(), draft()]).await;
    // Started in one claim, so by id; the ids of the second claim are smaller.
    let late = worker.claim(4).await;
    worker.end(&late[0], Outcome::Released).await;
    worker.end(&late[1], succeeded()).await;
    scene.advance(MINUTE).await;
    worker.claim_one().await;
    let other = scene.worker().await;
    scene.add(draft()).await;
    other.claim_one().await;

    let held = worker.held().await;
    let seen: Vec<(JobId, Epoch)> = held.iter().map(|held| (held.id, held.epoch)).collect();
    assert_eq!(seen, [(ids[2], Epoch(1)), (ids[3], Epoch(1)), (ids[0], Epoch(2))]);
    for held in held {
        assert_eq!(Some(held.started_at), scene.job(held.id).await.started_at);
    }
}

pub(crate) async fn held_since_leaves_out_what_started_before(scene: Scene<'_>) {
    let worker = scene.worker().await;
    scene.enqueue([draft(), draft()]).await;
    let early = worker.claim_one().await;
    scene.advance(MINUTE).await;
    let late = worker.claim_one().await;
    let started_at = scene.job(late.id).await.started_at;
    let since = async |since| {
        let held = scene.store.held(worker.id, since).await.expect("reading succeeds");
        held.iter().map(|held| held.id).collect::<Vec<_>>()
    };
    assert_eq!(since(started_at).await, [late.id], "the bound itself is included");
    assert_eq!(since(scene.job(early.id).await.started_at).await, [early.id, late.id]);
    assert_eq!(since(Some(scene.now().await + HOUR)).await, []);
    assert_eq!(since(None).await, [early.id, late.id]);
}

pub(crate) async fn held_tells_of_expired_sessions_and_of_unknown_ones(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    scene.advance(LEASE).await;
    assert_eq!(worker.held().await.len(), 1);
    assert_eq!(worker.held().await[0].id, job.id);
    let unknown = scene.store.held(WorkerId::new(), None).await;
    assert_eq!(unknown.expect("an unknown session is no error"), []);
}

pub(crate) async fn a_released_session_gives_its_jobs_back(scene: Scene<'_>) {
    let worker = scene.worker().await;
    scene.enqueue([draft().max_attempts(1), draft(), draft()]).await;
    let mine = worker.claim(2).await;
    let other = scene.worker().await;
    let theirs = other.claim_one().await;
    scene.advance(MINUTE).await;
    let (returned, when) = scene.during(worker.release()).await;
    assert_eq!(returned, 2);
    for job in &mine {
        let ready = scene.job(job.id).await;
        assert_eq!((ready.status, ready.worker, ready.finished_at), (Status::Pending, None, None));
        assert_eq!((ready.attempt, ready.epoch), (0, Epoch(1)), "no attempt is burnt");
        assert_eq!(ready.scheduled_at, job.scheduled_at, "it keeps its place");
        let attempts = scene.attempts(job.id).await;
        assert_eq!(attempts.len(), 1);
        assert_eq!((attempts[0].outcome, attempts[0].worker), (OutcomeKind::Released, worker.id));
        assert_eq!((attempts[0].attempt, attempts[0].epoch), (1, Epoch(1)));
        when.assert_holds(attempts[0].finished_at);
    }
    assert_eq!(scene.status(theirs.id).await, Status::Running, "others keep theirs");
    assert!(worker.held().await.is_empty());
    assert_eq!(worker.summary().await, None);
    let again: Vec<(JobId, Epoch)> = other.claim(5).await.iter().map(|job| (job.id, job.epoch)).collect();
    assert_eq!(again, [(mine[0].id, Epoch(2)), (mine[1].id, Epoch(2))]);
}

pub(crate) async fn a_released_session_settles_nothing_more(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    worker.release().await;
    let reasons = worker.settle_all([of(&job, succeeded()), of(&job, Outcome::Released)]).await;
    assert_eq!(reasons, [SettleReason::Stale, SettleReason::Repeated]);
    assert_eq!(scene.status(job.id).await, Status::Pending);
}

pub(crate) async fn releasing_a_session_that_is_not_there_is_no_error(scene: Scene<'_>) {
    assert_eq!(scene.store.release_worker(WorkerId::new()).await.expect("no error"), 0);
    let worker = scene.worker().await;
    assert_eq!(worker.release().await, 0, "it held nothing");
    assert_eq!(worker.release().await, 0, "it is gone");
}

pub(crate) async fn an_expired_session_can_be_released(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    scene.advance(LEASE).await;
    assert_eq!(worker.release().await, 1);
    assert_eq!(scene.status(job.id).await, Status::Pending);
    assert_eq!(scene.worker().await.claim_one().await.id, job.id);
}
