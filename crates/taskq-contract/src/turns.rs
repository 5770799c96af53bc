//! Queues whose lanes take turns, and changes of a queue's mode.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use taskq_core::model::{FairnessKey, JobId, Status};
use taskq_core::store::{ClaimRequest, Claimed, LanePart, QueueMode, QueueSet, Turn};

use crate::draft::{Draft, actor, draft, queue};
use crate::scene::{HOUR, MINUTE, Scene, assert_invalid};
use crate::worker::{Worker, failed_for_good, retry_after, succeeded};

/// The most jobs that one call of `set_queue` merges in most behaviours.
const BATCH: u32 = 100;

impl Draft {
    /// Puts it into a cohort.
    fn of(self, cohort: &str) -> Self {
        self.with(|job| job.fairness_key = Some(key(cohort)))
    }
}

impl Scene<'_> {
    async fn set_mode(&self, name: &str, mode: QueueMode) -> QueueSet {
        self.operator().await.set_queue(queue(name), mode, BATCH).await.expect("setting a mode succeeds")
    }

    /// Lets the lanes of queue `q` take turns.
    async fn round_robin(&self) {
        assert!(self.set_mode("q", QueueMode::RoundRobin).await.changed);
    }

    /// Puts queue `q` in strict order and merges every ready job.
    async fn strict(&self) {
        while self.set_mode("q", QueueMode::StrictFifo).await.more {}
    }

    async fn mode(&self, name: &str) -> Option<QueueMode> {
        let queues = self.queues().await.into_iter();
        queues.filter(|summary| summary.queue == queue(name)).map(|summary| summary.mode).next()
    }
}

impl Worker<'_> {
    /// Asks for jobs of queue `q` behind a turn.
    fn request_behind(&self, slots: u32, turn: Option<Turn>) -> ClaimRequest {
        let mut request = self.request(slots);
        request.queues[0].turn = turn;
        request
    }
}

/// A worker that remembers its turn in queue `q`.
struct Turning<'s> {
    scene: &'s Scene<'s>,
    worker: &'s Worker<'s>,
    turn: Option<Turn>,
}

impl<'s> Turning<'s> {
    fn behind(scene: &'s Scene<'s>, worker: &'s Worker<'s>, turn: Turn) -> Self {
        Self { scene, worker, turn: Some(turn) }
    }

    async fn try_claim(&mut self, slots: u32) -> Claimed {
        let request = self.worker.request_behind(slots, self.turn.clone());
        let claimed = self.scene.store.claim(request).await.expect("the claim is valid");
        assert!(claimed.turns.len() <= 1, "one turn of one queue");
        if let Some((of, turn)) = claimed.turns.first() {
            assert_eq!(*of, queue("q"));
            self.turn = Some(turn.clone());
        }
        claimed
    }

    async fn claim(&mut self, slots: u32) -> Vec<JobId> {
        self.try_claim(slots).await.jobs.into_iter().map(|job| job.id).collect()
    }
}

fn key(text: &str) -> FairnessKey {
    FairnessKey::new(text).expect("a valid key")
}

/// The lane of actor `a` and a cohort; without one for the empty text.
fn lane(cohort: &str) -> Turn {
    lane_of("a", cohort)
}

fn lane_of(name: &str, cohort: &str) -> Turn {
    Turn { actor: actor(name), cohort: (!cohort.is_empty()).then(|| key(cohort)) }
}

/// Enqueues so many jobs of a cohort, the first first.
async fn add(scene: &Scene<'_>, cohort: &str, jobs: usize) -> Vec<JobId> {
    scene.add_all((0..jobs).map(|_| draft().of(cohort))).await
}

pub(crate) async fn a_fairness_key_is_stored(scene: Scene<'_>) {
    scene.round_robin().await;
    let ids = scene.add_all([draft().of("é"), draft(), draft().of("late").after(HOUR)]).await;
    assert_eq!(scene.job(ids[0]).await.fairness_key, Some(key("é")));
    assert_eq!(scene.job(ids[1]).await.fairness_key, None);
    assert_eq!(scene.job(ids[2]).await.fairness_key, Some(key("late")));
}

pub(crate) async fn a_fairness_key_is_refused_where_nobody_takes_turns(scene: Scene<'_>) {
    assert_invalid(scene.try_enqueue([draft().of("t")]).await, Some(0));
    scene.round_robin().await;
    scene.enqueue([draft().of("t")]).await;
    let refused = scene.try_enqueue([draft().of("t"), draft(), draft().queue("r").of("t"), draft()]).await;
    let problem = format!("{:?}", refused.as_ref().expect_err("queue r is in strict order"));
    assert!(problem.contains("taskq queue set r --mode round_robin"), "names the remedy: {problem}");
    assert_invalid(refused, Some(2));
    assert_eq!(scene.queues().await.len(), 1, "nothing was written");
    scene.strict().await;
    assert_invalid(scene.try_enqueue([draft(), draft().of("t")]).await, Some(1));
}

pub(crate) async fn cohorts_take_turns(scene: Scene<'_>) {
    scene.round_robin().await;
    let (b, a) = (add(&scene, "b", 5).await, add(&scene, "a", 3).await);
    let (none, c) = (scene.add_all([draft(), draft()]).await, add(&scene, "c", 1).await);
    let worker = scene.worker().await;
    let mut turning = Turning::behind(&scene, &worker, lane("c"));
    assert_eq!(turning.claim(2).await, [none[0], a[0]], "those without a key come first in the ring");
    assert_eq!(turning.turn, Some(lane("a")));
    assert_eq!(turning.claim(3).await, [b[0], c[0], none[1]]);
    assert_eq!(turning.turn, Some(lane("")));
    assert_eq!(turning.claim(1).await, [a[1]]);
    assert_eq!(turning.claim(10).await, [b[1], a[2], b[2], b[3], b[4]]);
    assert_eq!(turning.turn, Some(lane("b")));
    let nothing = turning.try_claim(10).await;
    assert_eq!((nothing.jobs.len(), nothing.turns), (0, vec![]), "nobody was served");
}

pub(crate) async fn lanes_of_all_actors_are_one_ring(scene: Scene<'_>) {
    scene.round_robin().await;
    let of = |name: &str, cohort: &str| draft().actor(name).of(cohort);
    let ids = scene
        .add_all([
            of("b", "y"),
            of("a", "z"),
            of("b", "x"),
            of("a", "z"),
            of("x", "x"),
            of("a", "y"),
            of("c", "a"),
        ])
        .await;
    let worker = scene.worker_for(&["q"], &["c", "a", "b"]).await;
    let mut turning = Turning::behind(&scene, &worker, lane_of("b", "w"));
    assert_eq!(turning.claim(1).await, [ids[2]], "behind a lane that is not there");
    assert_eq!(turning.claim(2).await, [ids[0], ids[6]]);
    assert_eq!(turning.turn, Some(lane_of("c", "a")));
    assert_eq!(turning.claim(9).await, [ids[5], ids[1], ids[3]]);
    assert_eq!(scene.status(ids[4]).await, Status::Pending, "nobody serves its actor");
}

pub(crate) async fn a_turn_may_be_of_an_actor_that_is_not_served(scene: Scene<'_>) {
    scene.round_robin().await;
    let jobs = ["a", "c"].map(|name| draft().actor(name).of("t"));
    let ids = scene.add_all(jobs).await;
    let worker = scene.worker_for(&["q"], &["a", "c"]).await;
    let mut turning = Turning::behind(&scene, &worker, lane_of("b", "z"));
    assert_eq!(turning.claim(1).await, [ids[1]]);
    turning.turn = Some(lane_of("z", "z"));
    assert_eq!(turning.claim(5).await, [ids[0]]);
}

pub(crate) async fn in_a_lane_the_order_is_priority_then_time_then_id(scene: Scene<'_>) {
    scene.round_robin().await;
    let past = scene.now().await - HOUR;
    let ids = scene
        .add_all([
            draft().of("a"),
            draft().of("a").at(past),
            draft().of("a").priority(1),
            draft().of("a"),
            draft().of("b").priority(-5),
            draft().of("b").priority(9),
        ])
        .await;
    let worker = scene.worker().await;
    let mut turning = Turning::behind(&scene, &worker, lane(""));
    assert_eq!(turning.claim(1).await, [ids[2]], "another lane's priority does not count");
    assert_eq!(turning.claim(10).await, [ids[5], ids[1], ids[4], ids[0], ids[3]]);
}

pub(crate) async fn a_claim_shares_equally_what_the_lanes_have(scene: Scene<'_>) {
    scene.round_robin().await;
    let sizes = [("a", 1), ("b", 40), ("c", 3), ("d", 40), ("e", 2), ("f", 7)];
    let mut lanes = BTreeMap::new();
    for (cohort, jobs) in sizes {
        lanes.insert(cohort, add(&scene, cohort, jobs).await.into_iter());
    }
    let worker = scene.worker().await;
    let mut turning = Turning::behind(&scene, &worker, lane("b"));
    // As if they were served one by one.
    let mut ring = ["c", "d", "e", "f", "a", "b"].into_iter().cycle();
    let mut one_by_one = std::iter::from_fn(|| {
        (0..sizes.len())
            .find_map(|_| lanes.get_mut(ring.next().expect("a ring has no end")).and_then(Iterator::next))
    });
    for slots in [3, 20, 1, 7, 50, 30] {
        let expected: Vec<_> = one_by_one.by_ref().take(slots as usize).collect();
        assert_eq!(turning.claim(slots).await, expected, "{slots} slots");
    }
    assert_eq!(one_by_one.next(), None);
    assert_eq!(turning.claim(5).await, [], "nothing is left");
}

pub(crate) async fn a_heavy_cohort_makes_nobody_wait_more_than_a_turn(scene: Scene<'_>) {
    scene.round_robin().await;
    let heavy: BTreeSet<JobId> = add(&scene, "heavy", 10_000).await.into_iter().collect();
    let medium = add(&scene, "medium", 100).await;
    let light = add(&scene, "light", 1).await;
    let worker = scene.worker().await;
    let mut turning = Turning::behind(&scene, &worker, lane("heavy"));
    assert_eq!(turning.claim(1).await, light, "it comes first though it was enqueued last");
    for (nth, id) in medium.iter().enumerate() {
        let two = turning.claim(2).await;
        assert_eq!(two[0], *id, "the {nth}th of its cohort has waited for one job of the other");
        assert!(heavy.contains(&two[1]));
    }
    let late = add(&scene, "a", 1).await;
    assert_eq!(turning.claim(1).await, late, "a cohort that comes later has its turn in the next round");
    let many = turning.claim(200).await;
    assert!(many.len() == 200 && many.iter().all(|id| heavy.contains(id)), "alone it gets everything");
}

pub(crate) async fn every_cohort_of_many_actors_has_its_turn(scene: Scene<'_>) {
    scene.round_robin().await;
    let names: Vec<String> = (0..48).map(|n| format!("actor{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut first = Vec::new();
    for name in &names {
        let jobs = ["x", "y", "z"].iter().flat_map(|cohort| (0..3).map(|_| draft().actor(name).of(cohort)));
        first.extend(scene.add_all(jobs).await.into_iter().step_by(3));
    }
    let worker = scene.worker_for(&["q"], &names).await;
    let mut turning = Turning::behind(&scene, &worker, lane_of("actor47", "z"));
    let mut served = Vec::new();
    while served.len() < first.len() {
        served.extend(turning.claim(36).await);
    }
    assert_eq!(served, first, "one of each of the 144 lanes, in the order of the ring");
    assert_eq!(turning.claim(1_000).await.len(), 288);
}

pub(crate) async fn a_claim_without_a_turn_starts_anywhere(scene: Scene<'_>) {
    scene.round_robin().await;
    let cohorts = ["a", "tenant-00001", "tenant-00002", "tenant-00003", "é"];
    let mut lanes = BTreeMap::new();
    for cohort in cohorts {
        lanes.extend(add(&scene, cohort, 1).await.into_iter().map(|id| (id, cohort)));
    }
    let worker = scene.worker().await;
    let mut met = BTreeSet::new();
    // The least likely lane comes first with a chance of a twentieth at least: one that is never met in 1,000 claims is
    // met by none.
    for _ in 0..1_000 {
        let claimed = worker.claim_one().await;
        met.insert(lanes[&claimed.id]);
        worker.end(&claimed, retry_after(Duration::ZERO)).await;
        if met.len() == cohorts.len() {
            return;
        }
    }
    panic!("only {met:?} came first");
}

pub(crate) async fn workers_take_disjoint_turns(scene: Scene<'_>) {
    scene.round_robin().await;
    let mut all = BTreeSet::new();
    for cohort in ["a", "b", "c", "d"] {
        all.extend(add(&scene, cohort, 30).await);
    }
    let (one, two) = (scene.worker().await, scene.worker().await);
    let mut one = Turning { scene: &scene, worker: &one, turn: None };
    let mut two = Turning::behind(&scene, &two, lane("b"));
    let mut seen = BTreeSet::new();
    for _ in 0..6 {
        let (of_one, of_two) = tokio::join!(one.claim(10), two.claim(10));
        assert_eq!((of_one.len(), of_two.len()), (10, 10), "full while enough is ready");
        assert!(of_one.into_iter().chain(of_two).all(|id| seen.insert(id)), "no job twice");
    }
    assert_eq!(seen, all);
}

pub(crate) async fn each_queue_has_its_own_mode_and_turn(scene: Scene<'_>) {
    for name in ["r", "t"] {
        scene.set_mode(name, QueueMode::RoundRobin).await;
    }
    let ids = scene
        .add_all([
            draft().queue("r").of("x"),
            draft().queue("r").of("y"),
            draft().priority(5),
            draft().queue("t").of("y"),
            draft(),
            draft().queue("t").of("x"),
        ])
        .await;
    let worker = scene.worker_for(&["q", "r", "t"], &["a"]).await;
    let mut request = worker.request_from(&[("r", 1), ("q", 5), ("t", 5)]);
    request.queues[0].turn = Some(lane("x"));
    // A queue in strict order has no turns.
    request.queues[1].turn = Some(lane("x"));
    request.queues[2].turn = Some(lane(""));
    let claimed = scene.store.claim(request).await.expect("the claim is valid");
    let order: Vec<_> = claimed.jobs.iter().map(|job| job.id).collect();
    assert_eq!(order, [ids[1], ids[2], ids[4], ids[5], ids[3]]);
    assert_eq!(claimed.turns, [(queue("r"), lane("y")), (queue("t"), lane("y"))]);
}

pub(crate) async fn a_paused_part_has_no_turn(scene: Scene<'_>) {
    scene.round_robin().await;
    let ids = scene.add_all([draft().of("x"), draft().actor("b").of("x"), draft().actor("b").of("y")]).await;
    let worker = scene.worker_for(&["q"], &["a", "b"]).await;
    let mut turning = Turning::behind(&scene, &worker, lane(""));
    for part in [LanePart::Queue(queue("q")), LanePart::Actor(actor("a"))] {
        scene.store.pause(part).await.expect("pausing succeeds");
    }
    assert_eq!(turning.claim(1).await, []);
    scene.store.resume(LanePart::Queue(queue("q"))).await.expect("resuming succeeds");
    assert_eq!(scene.mode("q").await, Some(QueueMode::RoundRobin), "a pause leaves the mode alone");
    assert_eq!(turning.claim(1).await, [ids[1]], "the lane of the paused actor is passed over");
    scene.store.resume(LanePart::Actor(actor("a"))).await.expect("resuming succeeds");
    assert_eq!(turning.claim(2).await, [ids[2], ids[0]]);
}

pub(crate) async fn a_job_past_its_deadline_takes_nobodys_turn(scene: Scene<'_>) {
    scene.round_robin().await;
    let soon = scene.now().await + MINUTE;
    let late = scene
        .add_all([
            draft().of("a").priority(1).deadline(soon),
            draft().of("b").deadline(soon),
            draft().of("c").priority(1).deadline(soon),
            draft().of("c").priority(1).deadline(soon),
        ])
        .await;
    let live = scene.add_all([draft().of("a"), draft().of("c"), draft().of("d")]).await;
    scene.advance(2 * MINUTE).await;
    let worker = scene.worker().await;
    let mut turning = Turning::behind(&scene, &worker, lane(""));
    let claimed: BTreeSet<_> = turning.claim(3).await.into_iter().collect();
    assert_eq!(claimed, live.into_iter().collect());
    for id in late {
        let job = scene.job(id).await;
        assert_eq!((job.status, job.attempt), (Status::Failed, 0));
    }
}

pub(crate) async fn a_job_that_comes_back_waits_in_its_own_lane(scene: Scene<'_>) {
    scene.round_robin().await;
    let (x, y) = (add(&scene, "x", 1).await, add(&scene, "y", 3).await);
    let worker = scene.worker().await;
    let mut turning = Turning::behind(&scene, &worker, lane(""));
    let first = turning.try_claim(1).await.jobs.remove(0);
    assert_eq!(first.id, x[0]);
    worker.end(&first, retry_after(Duration::ZERO)).await;
    let two = turning.try_claim(2).await.jobs;
    assert_eq!([two[0].id, two[1].id], [y[0], x[0]], "it has the turn of its cohort");
    worker.end(&two[1], failed_for_good()).await;
    scene.retry(&[x[0]]).await;
    assert_eq!(turning.claim(3).await, [y[1], x[0], y[2]]);
}

pub(crate) async fn a_mode_that_is_set_tells_what_it_changed(scene: Scene<'_>) {
    let unchanged = QueueSet::default();
    assert_eq!(scene.mode("q").await, None);
    assert_eq!(scene.set_mode("q", QueueMode::StrictFifo).await, unchanged, "it was in strict order already");
    assert_eq!(scene.mode("q").await, Some(QueueMode::StrictFifo));
    let changed = QueueSet { changed: true, ..unchanged };
    assert_eq!(scene.set_mode("q", QueueMode::RoundRobin).await, changed);
    assert_eq!(scene.set_mode("q", QueueMode::RoundRobin).await, unchanged);
    assert_eq!(scene.mode("q").await, Some(QueueMode::RoundRobin));
    add(&scene, "x", 3).await;
    let merged = |changed, merged, more| QueueSet { changed, merged, more };
    let operator = scene.operator().await;
    let set = |limit| operator.set_queue(queue("q"), QueueMode::StrictFifo, limit);
    assert_eq!(set(2).await.expect("a valid call"), merged(true, 2, true));
    assert_eq!(set(2).await.expect("a valid call"), merged(false, 1, false));
    assert_eq!(set(2).await.expect("a valid call"), unchanged);
    assert_eq!(scene.mode("q").await, Some(QueueMode::StrictFifo));
    for limit in [0, 100_001] {
        assert_invalid(operator.set_queue(queue("q"), QueueMode::RoundRobin, limit).await, None);
    }
    assert_eq!(scene.mode("q").await, Some(QueueMode::StrictFifo), "nothing was changed");
}

pub(crate) async fn jobs_that_were_in_strict_order_are_one_lane(scene: Scene<'_>) {
    let old = scene.add_all([draft(), draft().priority(1), draft()]).await;
    let worker = scene.worker().await;
    scene.round_robin().await;
    let new = add(&scene, "x", 2).await;
    let mut turning = Turning::behind(&scene, &worker, lane("x"));
    assert_eq!(turning.claim(9).await, [old[1], new[0], old[0], new[1], old[2]]);
}

pub(crate) async fn in_strict_order_again_cohorts_do_not_count(scene: Scene<'_>) {
    scene.round_robin().await;
    let ids = scene
        .add_all([
            draft().of("z"),
            draft().of("y").actor("b"),
            draft(),
            draft().of("z").priority(1),
            draft().of("x"),
        ])
        .await;
    let worker = scene.worker_for(&["q"], &["a", "b"]).await;
    scene.strict().await;
    let later = scene.add(draft().priority(2)).await;
    let claimed = worker.try_claim(10).await.expect("the claim is valid");
    let order: Vec<_> = claimed.jobs.iter().map(|job| job.id).collect();
    assert_eq!(order, [later, ids[3], ids[0], ids[1], ids[2], ids[4]]);
    assert_eq!(claimed.turns, [], "no turns in strict order");
}

pub(crate) async fn what_becomes_ready_after_the_change_is_found(scene: Scene<'_>) {
    scene.round_robin().await;
    let due = scene.add(draft().of("x").after(MINUTE)).await;
    let ids = add(&scene, "x", 2).await;
    let worker = scene.worker().await;
    let running = worker.claim(2).await;
    let (kept, ended) = (&running[0], &running[1]);
    assert_eq!([kept.id, ended.id], ids[..]);
    worker.end(ended, failed_for_good()).await;
    scene.strict().await;
    worker.end(kept, retry_after(Duration::ZERO)).await;
    scene.retry(&[ended.id]).await;
    scene.advance(2 * MINUTE).await;
    scene.promote_all().await;
    let found: BTreeSet<_> = worker.claim_ids(10).await.into_iter().collect();
    assert_eq!(found, [due, kept.id, ended.id].into());
    let job = scene.job(due).await;
    assert_eq!(job.fairness_key, Some(key("x")), "it says still what it was enqueued with");
}

pub(crate) async fn ready_jobs_are_counted_over_their_cohorts(scene: Scene<'_>) {
    scene.round_robin().await;
    for cohort in ["x", "y"] {
        add(&scene, cohort, 2).await;
    }
    let stats = scene.stats().await;
    let unserved: Vec<_> =
        stats.unserved.iter().map(|lane| (lane.actor.as_str(), lane.pending.value)).collect();
    assert_eq!(unserved, [("a", 4)], "by actor, whatever the cohort");
    let summary = &scene.queues().await[0];
    assert_eq!((summary.pending.value, summary.mode), (4, QueueMode::RoundRobin));
    let worker = scene.worker().await;
    let job = worker.claim_one().await;
    worker.end(&job, succeeded()).await;
    assert_eq!(scene.queues().await[0].pending.value, 3);
}
