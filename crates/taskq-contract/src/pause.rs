//! Pausing and resuming queues and actors.

use taskq_core::model::{JobId, Status};
use taskq_core::store::{ClaimRequest, Count, LanePart};

use crate::draft::{actor, draft, queue};
use crate::scene::{HOUR, MINUTE, Scene, assert_invalid, assert_lease_lost};
use crate::worker::{LEASE, Worker, failed_for_good, succeeded};

impl Scene<'_> {
    async fn pause(&self, part: LanePart) -> bool {
        self.store.pause(part).await.expect("pausing succeeds")
    }

    async fn resume(&self, part: LanePart) -> bool {
        self.store.resume(part).await.expect("resuming succeeds")
    }

    async fn paused_queues(&self) -> Vec<String> {
        let queues = self.queues().await.into_iter();
        queues.filter(|summary| summary.paused).map(|summary| summary.queue.to_string()).collect()
    }

    async fn paused_actors(&self) -> Vec<String> {
        let actors = self.store.paused_actors().await.expect("reading succeeds");
        actors.iter().map(ToString::to_string).collect()
    }
}

async fn ids_from(worker: &Worker<'_>, queues: &[(&str, u32)]) -> Vec<JobId> {
    worker.claim_from(queues).await.into_iter().map(|job| job.id).collect()
}

pub(crate) fn of_queue(name: &str) -> LanePart {
    LanePart::Queue(queue(name))
}

pub(crate) fn of_actor(name: &str) -> LanePart {
    LanePart::Actor(actor(name))
}

pub(crate) async fn a_paused_queue_hands_out_nothing(scene: Scene<'_>) {
    let (worker, running) = scene.running(draft()).await;
    let ready = scene.add(draft()).await;
    assert!(scene.pause(of_queue("q")).await);
    assert!(worker.claim(10).await.is_empty());
    let later = scene.add(draft()).await;
    assert_eq!(scene.status(later).await, Status::Pending, "jobs are taken in as ever");
    assert!(worker.claim(10).await.is_empty());
    worker.beat().await;
    worker.note(&running, "1").await.expect("what runs goes on");
    assert_eq!(worker.end(&running, succeeded()).await, Status::Succeeded);
    assert!(scene.resume(of_queue("q")).await);
    assert_eq!(worker.claim_ids(10).await, [ready, later]);
}

pub(crate) async fn a_paused_actor_is_held_back_in_every_queue(scene: Scene<'_>) {
    let worker = scene.worker_for(&["q", "r"], &["a", "b"]).await;
    let running = async || {
        let id = scene.add(draft().actor("b")).await;
        let claimed = worker.claim_one().await;
        assert_eq!(claimed.id, id);
        claimed
    };
    let runs = running().await;
    let ids = scene
        .add_all([
            draft().actor("b").priority(9),
            draft(),
            draft().actor("b"),
            draft().priority(1),
            draft().queue("r").actor("b"),
            draft().queue("r"),
        ])
        .await;
    assert!(scene.pause(of_actor("b")).await);
    let both = [("q", 10), ("r", 10)];
    assert_eq!(ids_from(&worker, &both).await, [ids[3], ids[1], ids[5]], "the other lanes go on in order");
    assert_eq!(worker.end(&runs, succeeded()).await, Status::Succeeded);
    assert!(ids_from(&worker, &both).await.is_empty());
    assert!(scene.resume(of_actor("b")).await);
    assert_eq!(ids_from(&worker, &both).await, [ids[0], ids[2], ids[4]]);
}

pub(crate) async fn the_other_queues_of_a_claim_go_on(scene: Scene<'_>) {
    let jobs = ["one", "two", "three"].map(|name| draft().queue(name));
    let ids = scene.add_all(jobs).await;
    let worker = scene.worker_for(&["one", "two", "three"], &["a"]).await;
    scene.pause(of_queue("two")).await;
    let all = [("three", 5), ("two", 5), ("one", 5)];
    assert_eq!(ids_from(&worker, &all).await, [ids[2], ids[0]]);
    assert!(ids_from(&worker, &all).await.is_empty());
    scene.resume(of_queue("two")).await;
    assert_eq!(ids_from(&worker, &all).await, [ids[1]]);
}

pub(crate) async fn every_worker_is_held_back(scene: Scene<'_>) {
    let id = scene.add(draft()).await;
    let early = scene.worker().await;
    scene.pause(of_queue("q")).await;
    scene.pause(of_actor("a")).await;
    let late = scene.worker().await;
    for worker in [&early, &late] {
        assert!(worker.claim(10).await.is_empty());
    }
    scene.resume(of_queue("q")).await;
    assert!(late.claim(10).await.is_empty(), "its actor is paused still");
    scene.pause(of_queue("q")).await;
    scene.resume(of_actor("a")).await;
    assert!(late.claim(10).await.is_empty(), "its queue is paused again");
    scene.resume(of_queue("q")).await;
    assert_eq!(late.claim_ids(10).await, [id]);
}

pub(crate) async fn pausing_and_resuming_tell_whether_they_changed_something(scene: Scene<'_>) {
    for part in [of_queue("q"), of_actor("a")] {
        assert!(!scene.resume(part.clone()).await, "it was never paused");
        for _ in 0..2 {
            assert!(scene.pause(part.clone()).await);
            assert!(!scene.pause(part.clone()).await, "it was paused already");
            assert!(scene.resume(part.clone()).await);
            assert!(!scene.resume(part.clone()).await, "it was resumed already");
        }
    }
}

pub(crate) async fn a_queue_and_an_actor_of_one_name_are_two(scene: Scene<'_>) {
    let worker = scene.worker_for(&["x", "y"], &["x", "y"]).await;
    let in_x = scene.add(draft().queue("x").actor("y")).await;
    let by_x = scene.add(draft().queue("y").actor("x")).await;
    let both = [("x", 5), ("y", 5)];
    scene.pause(of_queue("x")).await;
    assert!(!scene.resume(of_actor("x")).await);
    assert_eq!(scene.paused_actors().await, Vec::<String>::new());
    assert_eq!(ids_from(&worker, &both).await, [by_x]);
    assert!(scene.pause(of_actor("x")).await);
    scene.resume(of_queue("x")).await;
    assert_eq!(ids_from(&worker, &both).await, [in_x]);
}

pub(crate) async fn paused_queues_are_listed_as_such(scene: Scene<'_>) {
    scene.enqueue([draft(), draft().queue("r")]).await;
    assert_eq!(scene.paused_queues().await, Vec::<String>::new());
    scene.pause(of_queue("r")).await;
    scene.pause(of_queue("empty")).await;
    let queues = scene.queues().await;
    let listed: Vec<_> = queues.iter().map(|summary| (summary.queue.as_str(), summary.paused)).collect();
    assert_eq!(listed, [("empty", true), ("q", false), ("r", true)], "by name, also without jobs");
    let (empty, held_back) = (&queues[0], &queues[2]);
    assert_eq!((empty.pending, empty.oldest_pending, empty.workers), (Count::of(0), None, 0));
    assert_eq!(held_back.pending, Count::of(1));
    scene.resume(of_queue("r")).await;
    scene.resume(of_queue("empty")).await;
    assert_eq!(scene.paused_queues().await, Vec::<String>::new());
}

pub(crate) async fn paused_actors_are_listed_by_name(scene: Scene<'_>) {
    assert_eq!(scene.paused_actors().await, Vec::<String>::new());
    for name in ["c", "a", "é", "B"] {
        scene.pause(of_actor(name)).await;
    }
    assert_eq!(scene.paused_actors().await, ["B", "a", "c", "é"]);
    scene.resume(of_actor("a")).await;
    assert_eq!(scene.paused_actors().await, ["B", "c", "é"]);
}

pub(crate) async fn a_claim_from_what_is_paused_is_checked_as_ever(scene: Scene<'_>) {
    let worker = scene.worker().await;
    scene.pause(of_queue("q")).await;
    scene.pause(of_actor("a")).await;
    assert_invalid(scene.store.claim(worker.request_from(&[("other", 1)])).await, None);
    assert!(scene.store.claim(ClaimRequest { oversample: 0, ..worker.request(1) }).await.is_err());
    scene.advance(LEASE).await;
    assert_lease_lost(worker.try_claim(1).await);
}

pub(crate) async fn a_claim_from_what_is_paused_ends_no_late_jobs(scene: Scene<'_>) {
    let deadline = scene.now().await + MINUTE;
    let id = scene.add(draft().deadline(deadline)).await;
    scene.advance(2 * MINUTE).await;
    let worker = scene.worker().await;
    for part in [of_queue("q"), of_actor("a")] {
        scene.pause(part.clone()).await;
        assert!(worker.claim(10).await.is_empty());
        assert_eq!(scene.status(id).await, Status::Pending);
        scene.resume(part).await;
    }
    assert!(worker.claim(10).await.is_empty());
    assert_eq!(scene.status(id).await, Status::Failed);
}

pub(crate) async fn everything_but_the_claim_goes_on_while_paused(scene: Scene<'_>) {
    let (worker, ended) = scene.running(draft()).await;
    worker.end(&ended, failed_for_good()).await;
    let due = scene.add(draft().after(MINUTE)).await;
    let (_worker, lost) = scene.expired(draft()).await;
    scene.pause(of_queue("q")).await;
    scene.pause(of_actor("a")).await;
    scene.promote_all().await;
    scene.retry(&[ended.id]).await;
    scene.rescue().await;
    scene.advance(HOUR).await;
    scene.promote_all().await;
    for id in [ended.id, due, lost.id] {
        assert_eq!(scene.status(id).await, Status::Pending);
    }
    assert!(scene.worker().await.claim(10).await.is_empty());
    scene.cancel(&[due]).await;
    assert_eq!(scene.status(due).await, Status::Cancelled);
    scene.resume(of_queue("q")).await;
    scene.resume(of_actor("a")).await;
    assert_eq!(scene.worker().await.claim(10).await.len(), 2);
}
