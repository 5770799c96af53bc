//! The leader's lease, and promoting.

use std::time::Duration;

use taskq_core::model::{JobId, Status, WorkerId};
use taskq_core::store::{LeaderEpoch, Swept};

use crate::draft::{draft, queue};
use crate::scene::{HOUR, MINUTE, Scene, assert_invalid, assert_not_leader};
use crate::worker::{LEADER_LEASE, Worker, failed, snoozed};

impl Worker<'_> {
    async fn must_lead(&self) -> LeaderEpoch {
        self.lead().await.expect("nobody else leads")
    }
}

pub(crate) async fn the_first_to_ask_leads(scene: Scene<'_>) {
    let (first, second) = (scene.worker().await, scene.worker().await);
    assert_eq!(scene.stats().await.leader, None);
    let epoch = first.must_lead().await;
    assert_eq!(second.lead().await, None);
    assert_eq!(scene.stats().await.leader, Some(first.id));
    assert_eq!(first.lead().await, Some(epoch), "the leader stays the same");
    second.beat().await;
    assert_eq!(scene.stats().await.leader, Some(first.id));
}

pub(crate) async fn the_leader_renews_its_lease(scene: Scene<'_>) {
    let (first, second) = (scene.worker().await, scene.worker().await);
    let epoch = first.must_lead().await;
    for _ in 0..4 {
        scene.advance(LEADER_LEASE * 6 / 10).await;
        assert_eq!(second.lead().await, None);
        assert_eq!(first.lead().await, Some(epoch));
    }
}

pub(crate) async fn a_beat_that_does_not_ask_leaves_the_lease_alone(scene: Scene<'_>) {
    let (first, second) = (scene.worker().await, scene.worker().await);
    first.must_lead().await;
    scene.advance(LEADER_LEASE * 6 / 10).await;
    first.beat().await;
    assert_eq!(second.lead().await, None);
    scene.advance(LEADER_LEASE * 6 / 10).await;
    second.must_lead().await;
}

pub(crate) async fn an_expired_lease_goes_to_the_next_with_a_new_epoch(scene: Scene<'_>) {
    let (first, second) = (scene.worker().await, scene.worker().await);
    let old = first.must_lead().await;
    scene.advance(LEADER_LEASE).await;
    assert_eq!(scene.stats().await.leader, None);
    let new = second.must_lead().await;
    assert!(new > old, "{new:?} follows {old:?}");
    assert_eq!(first.lead().await, None);
    assert_eq!(scene.stats().await.leader, Some(second.id));
    assert_not_leader(scene.promote(first.id, old, 1).await);
    assert_not_leader(scene.promote(first.id, new, 1).await);
    scene.promote(second.id, new, 1).await.expect("the second one leads");
}

pub(crate) async fn a_leader_that_lost_its_lease_comes_back_with_a_new_epoch(scene: Scene<'_>) {
    let worker = scene.worker().await;
    let old = worker.must_lead().await;
    scene.advance(LEADER_LEASE).await;
    let new = worker.must_lead().await;
    assert!(new > old, "{new:?} follows {old:?}");
    assert_not_leader(scene.promote(worker.id, old, 1).await);
    scene.promote(worker.id, new, 1).await.expect("it leads again");
}

pub(crate) async fn a_released_leader_makes_room_at_once(scene: Scene<'_>) {
    let (first, second) = (scene.worker().await, scene.worker().await);
    let old = first.must_lead().await;
    first.release().await;
    assert_eq!(scene.stats().await.leader, None);
    assert_not_leader(scene.promote(first.id, old, 1).await);
    let new = second.must_lead().await;
    assert!(new > old, "{new:?} follows {old:?}");
}

pub(crate) async fn releasing_another_worker_leaves_the_leader(scene: Scene<'_>) {
    let (first, second) = (scene.worker().await, scene.worker().await);
    let epoch = first.must_lead().await;
    second.release().await;
    assert_eq!(first.lead().await, Some(epoch));
}

pub(crate) async fn only_the_leader_promotes(scene: Scene<'_>) {
    let id = scene.add(draft().after(MINUTE)).await;
    scene.advance(MINUTE).await;
    let (leader, other) = (scene.worker().await, scene.worker().await);
    assert_not_leader(scene.promote(leader.id, LeaderEpoch(0), 10).await);
    assert_not_leader(scene.promote(WorkerId::new(), LeaderEpoch(0), 10).await);
    let epoch = leader.must_lead().await;
    assert_not_leader(scene.promote(other.id, epoch, 10).await);
    assert_not_leader(scene.promote(leader.id, LeaderEpoch(epoch.0 + 1), 10).await);
    assert_not_leader(scene.promote(leader.id, LeaderEpoch(epoch.0 - 1), 10).await);
    scene.advance(LEADER_LEASE).await;
    assert_not_leader(scene.promote(leader.id, epoch, 10).await);
    assert_eq!(scene.status(id).await, Status::Scheduled, "nothing was changed");
}

pub(crate) async fn promoting_makes_due_jobs_ready(scene: Scene<'_>) {
    let due = scene.add_all([draft().after(MINUTE), draft().queue("other").after(2 * MINUTE)]).await;
    let later = scene.add(draft().after(HOUR)).await;
    scene.advance(3 * MINUTE).await;
    let before = scene.job(due[0]).await;
    let leader = scene.worker().await;
    let epoch = leader.must_lead().await;
    let promoted = scene.promote(leader.id, epoch, 100).await.expect("it leads");
    assert_eq!(promoted.rows, 2);
    for id in due.iter().copied() {
        assert_eq!(scene.status(id).await, Status::Pending);
    }
    assert_eq!(scene.status(later).await, Status::Scheduled);
    assert_eq!(scene.job(due[0]).await.scheduled_at, before.scheduled_at, "its time stays");
    assert_eq!(leader.claim_ids(10).await, [due[0]]);
    let again = scene.promote(leader.id, epoch, 100).await.expect("it leads");
    assert_eq!(again.rows, 0);
}

pub(crate) async fn promoting_goes_from_the_oldest_and_stops_at_its_limit(scene: Scene<'_>) {
    let mut due: Vec<JobId> = Vec::new();
    for minutes in (1..=5).rev() {
        due.push(scene.add(draft().after(minutes * MINUTE)).await);
    }
    due.reverse();
    scene.advance(HOUR).await;
    let leader = scene.worker().await;
    let epoch = leader.must_lead().await;
    let mut ready = 0;
    for (limit, jobs, more) in [(2, 2, true), (2, 2, true), (2, 1, false), (2, 0, false)] {
        let promoted = scene.promote(leader.id, epoch, limit).await.expect("it leads");
        assert_eq!((promoted.rows, promoted.more), (jobs, jobs == u64::from(limit)));
        assert_eq!(promoted.due_in, more.then_some(Duration::ZERO));
        ready += usize::try_from(jobs).expect("small");
        for (index, id) in due.iter().enumerate() {
            let expected = if index < ready { Status::Pending } else { Status::Scheduled };
            assert_eq!(scene.status(*id).await, expected, "job {index} after {ready}");
        }
    }
}

pub(crate) async fn promoting_tells_when_the_next_job_is_due(scene: Scene<'_>) {
    let leader = scene.worker().await;
    let epoch = leader.must_lead().await;
    let promote = async || scene.promote(leader.id, epoch, 10).await.expect("it leads");
    assert_eq!(promote().await, Swept::default());
    scene.enqueue([draft().after(HOUR), draft(), draft().after(MINUTE)]).await;
    assert_due_within(promote().await.due_in, MINUTE);
    scene.advance(MINUTE).await;
    let promoted = promote().await;
    assert_eq!(promoted.rows, 1);
    assert_due_within(promoted.due_in, 59 * MINUTE);
}

/// Time may flow between two calls, but not half a minute.
#[track_caller]
fn assert_due_within(due_in: Option<Duration>, most: Duration) {
    let next = due_in.expect("a job is scheduled");
    assert!(next <= most, "{next:?} is longer than {most:?}");
    assert!(next + MINUTE / 2 > most, "{next:?} is much shorter than {most:?}");
}

pub(crate) async fn jobs_that_wait_again_are_promoted_too(scene: Scene<'_>) {
    let (worker, snoozing) = scene.running(draft()).await;
    worker.end(&snoozing, snoozed(MINUTE)).await;
    let (worker, failing) = scene.running(draft().retry_every(2 * MINUTE)).await;
    worker.end(&failing, failed()).await;
    scene.advance(2 * MINUTE).await;
    scene.promote_all().await;
    assert_eq!(scene.worker().await.claim_ids(10).await, [snoozing.id, failing.id]);
}

pub(crate) async fn promoting_out_of_bounds_is_refused(scene: Scene<'_>) {
    let leader = scene.worker().await;
    let epoch = leader.must_lead().await;
    for limit in [0, 100_001, u32::MAX] {
        assert_invalid(scene.promote(leader.id, epoch, limit).await, None);
    }
    scene.promote(leader.id, epoch, 100_000).await.expect("at its bound");
}

pub(crate) async fn a_job_past_its_deadline_is_promoted_and_then_ends(scene: Scene<'_>) {
    let deadline = scene.now().await + 2 * MINUTE;
    let id = scene.add(draft().queue("late").after(MINUTE).deadline(deadline)).await;
    scene.advance(HOUR).await;
    scene.promote_all().await;
    let worker = scene.worker_for(&["late"], &["a"]).await;
    assert_eq!(scene.job(id).await.queue, queue("late"));
    assert!(worker.claim_from(&[("late", 1)]).await.is_empty());
    assert_eq!(scene.status(id).await, Status::Failed);
}
