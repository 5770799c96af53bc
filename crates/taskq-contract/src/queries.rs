//! What operators ask.

use std::collections::BTreeMap;
use std::time::Duration;

use taskq_core::model::{JobId, Outcome, Status};
use taskq_core::store::{ActorSummary, Count, Ending, JobFilter, LeaderSummary, QueueMode, WorkerState};

use crate::draft::{actor, draft, json, queue};
use crate::scene::{HOUR, MINUTE, Scene, assert_invalid};
use crate::worker::{LEADER_LEASE, LEASE, abandoned, error, failed_for_good, succeeded};

impl Scene<'_> {
    async fn list(&self, filter: JobFilter) -> Vec<JobId> {
        let jobs = self.store.jobs(filter).await.expect("the filter is valid");
        jobs.into_iter().map(|job| job.id).collect()
    }

    async fn endings(&self, ids: &[JobId]) -> BTreeMap<JobId, Ending> {
        let endings = self.store.endings(ids.to_vec()).await.expect("reading succeeds");
        endings.into_iter().map(|ending| (ending.id, ending)).collect()
    }

    async fn count(&self, status: Status) -> Count {
        let jobs = self.stats().await.jobs;
        jobs.into_iter().find(|(found, _)| *found == status).expect("every status is counted").1
    }
}

fn everything() -> JobFilter {
    JobFilter { limit: 1_000, ..JobFilter::default() }
}

pub(crate) async fn an_unknown_job_is_none(scene: Scene<'_>) {
    let id = JobId::new();
    assert_eq!(scene.store.job(id).await.expect("reading succeeds"), None);
    assert_eq!(scene.attempts(id).await, []);
    assert!(scene.endings(&[id]).await.is_empty());
}

pub(crate) async fn jobs_are_listed_newest_first(scene: Scene<'_>) {
    assert_eq!(scene.list(everything()).await, []);
    let mut ids = scene
        .add_all((0..5).map(|n| draft().priority(n).after(u32::try_from(n).expect("small") * HOUR)))
        .await;
    ids.reverse();
    assert_eq!(scene.list(everything()).await, ids);
    let records = scene.store.jobs(everything()).await.expect("a list");
    assert_eq!(records[2], scene.job(ids[2]).await, "the list holds whole records");
}

pub(crate) async fn filters_narrow_the_list(scene: Scene<'_>) {
    let (worker, ended) = scene.running(draft()).await;
    worker.end(&ended, succeeded()).await;
    let ready = scene.add(draft()).await;
    let other_actor = scene.add(draft().actor("b")).await;
    let other_queue = scene.add(draft().queue("r")).await;
    let waiting = scene.add(draft().queue("r").actor("b").after(HOUR)).await;
    let of_status = |status| JobFilter { status: Some(status), ..everything() };
    let of_queue = |name| JobFilter { queue: Some(queue(name)), ..everything() };
    let of_actor = |name| JobFilter { actor: Some(actor(name)), ..everything() };
    assert_eq!(scene.list(of_status(Status::Succeeded)).await, [ended.id]);
    assert_eq!(scene.list(of_status(Status::Scheduled)).await, [waiting]);
    assert_eq!(scene.list(of_status(Status::Pending)).await, [other_queue, other_actor, ready]);
    assert_eq!(scene.list(of_status(Status::Crashed)).await, []);
    assert_eq!(scene.list(of_queue("q")).await, [other_actor, ready, ended.id]);
    assert_eq!(scene.list(of_queue("nowhere")).await, []);
    assert_eq!(scene.list(of_actor("b")).await, [waiting, other_actor]);
    let all = JobFilter {
        status: Some(Status::Pending),
        queue: Some(queue("q")),
        actor: Some(actor("a")),
        before: Some(other_actor),
        limit: 5,
    };
    assert_eq!(scene.list(all.clone()).await, [ready]);
    assert_eq!(scene.list(JobFilter { before: Some(ready), ..all }).await, []);
}

pub(crate) async fn each_status_can_be_listed(scene: Scene<'_>) {
    for (outcome, status) in [
        (succeeded(), Status::Succeeded),
        (failed_for_good(), Status::Failed),
        (Outcome::Cancelled { error: None }, Status::Cancelled),
        (abandoned(), Status::Abandoned),
    ] {
        let (worker, job) = scene.running(draft()).await;
        worker.end(&job, outcome).await;
        assert_eq!(scene.list(JobFilter { status: Some(status), ..everything() }).await, [job.id]);
    }
    let (_worker, job) = scene.expired(draft().max_attempts(1)).await;
    scene.rescue().await;
    assert_eq!(scene.list(JobFilter { status: Some(Status::Crashed), ..everything() }).await, [job.id]);
    let (_worker, job) = scene.running(draft()).await;
    assert_eq!(scene.list(JobFilter { status: Some(Status::Running), ..everything() }).await, [job.id]);
}

pub(crate) async fn the_list_is_read_page_by_page(scene: Scene<'_>) {
    let mut ids = scene.add_all((0..7).map(|_| draft())).await;
    ids.reverse();
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = scene.list(JobFilter { limit: 3, before, ..JobFilter::default() }).await;
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        before = Some(*last);
        seen.extend(page);
    }
    assert_eq!(seen, ids);
}

pub(crate) async fn a_page_out_of_bounds_is_refused(scene: Scene<'_>) {
    for limit in [0, 1_001, u32::MAX] {
        assert_invalid(scene.store.jobs(JobFilter { limit, ..everything() }).await, None);
    }
    assert_eq!(scene.list(JobFilter { limit: 1, ..everything() }).await, []);
}

pub(crate) async fn endings_tell_how_jobs_stand(scene: Scene<'_>) {
    let (worker, good) = scene.running(draft()).await;
    worker.end(&good, Outcome::Succeeded { result: Some(json("[1]")) }).await;
    let (worker, bad) = scene.running(draft()).await;
    worker.end(&bad, failed_for_good()).await;
    let ready = scene.add(draft()).await;
    let unasked = scene.add(draft()).await;
    let endings = scene.endings(&[ready, JobId::new(), bad.id, good.id]).await;
    let ending = |id, status, result, error| Ending { id, status, result, error };
    let expected = BTreeMap::from([
        (good.id, ending(good.id, Status::Succeeded, Some(json("[1]")), None)),
        (bad.id, ending(bad.id, Status::Failed, None, Some(error("it broke for good")))),
        (ready, ending(ready, Status::Pending, None, None)),
    ]);
    assert_eq!(endings, expected);
    assert!(!endings.contains_key(&unasked));
    assert!(scene.endings(&[]).await.is_empty());
}

pub(crate) async fn queues_are_summarised(scene: Scene<'_>) {
    assert_eq!(scene.queues().await, []);
    scene.enqueue([draft().queue("b"), draft().queue("b"), draft().queue("b").after(HOUR)]).await;
    scene.add(draft().queue("b")).await;
    let worker = scene.worker_for(&["b", "a"], &["a"]).await;
    worker.claim_from(&[("b", 1)]).await;
    scene.advance(MINUTE).await;
    let queues = scene.queues().await;
    let names: Vec<&str> = queues.iter().map(|summary| summary.queue.as_str()).collect();
    assert_eq!(names, ["a", "b"], "by name, with those that only a worker names");
    let (idle, busy) = (&queues[0], &queues[1]);
    assert_eq!((idle.workers, idle.oldest_pending), (1, None));
    assert_eq!((idle.scheduled, idle.pending, idle.running), (Count::of(0), Count::of(0), Count::of(0)));
    assert_eq!(busy.mode, QueueMode::StrictFifo);
    assert_eq!((busy.scheduled, busy.pending, busy.running), (Count::of(1), Count::of(2), Count::of(1)));
    assert_eq!(busy.workers, 1);
    let waited = busy.oldest_pending.expect("a job is ready");
    assert!(waited >= MINUTE && waited < 2 * MINUTE, "{waited:?}");
}

pub(crate) async fn a_queue_whose_jobs_have_ended_is_not_listed(scene: Scene<'_>) {
    let (worker, job) = scene.running(draft()).await;
    worker.end(&job, succeeded()).await;
    assert_eq!(scene.queues().await.len(), 1, "a worker subscribes to it");
    worker.release().await;
    assert_eq!(scene.queues().await, []);
    scene.add(draft().after(HOUR)).await;
    assert_eq!(scene.queues().await.len(), 1, "a job waits in it");
}

pub(crate) async fn workers_are_listed_oldest_first(scene: Scene<'_>) {
    let mut workers = Vec::new();
    for _ in 0..4 {
        workers.push(scene.worker().await.id);
        scene.advance(MINUTE).await;
    }
    let listed: Vec<_> = scene.stats().await.workers.iter().map(|summary| summary.worker).collect();
    assert_eq!(listed, workers);
}

pub(crate) async fn every_worker_is_listed_with_its_state(scene: Scene<'_>) {
    assert_eq!(scene.workers().await, []);
    let (declared, _job) = scene.expired(draft()).await;
    let leader = scene.leading().await;
    assert_eq!(leader.mark_lost().await, 1);
    leader.step_down().await;
    let expired = scene.worker().await;
    scene.advance(LEASE).await;
    let (alive, when) = scene.during(scene.worker_for(&["r"], &["b"])).await;
    let workers = scene.workers().await;
    let listed: Vec<_> = workers.iter().map(|summary| (summary.worker, summary.state)).collect();
    let expected =
        [(declared.id, WorkerState::Lost), (expired.id, WorkerState::Lost), (alive.id, WorkerState::Active)];
    assert_eq!(listed, expected, "oldest first");
    assert_eq!(workers[0].running, Count::of(1), "what was not taken from it yet");
    assert_eq!((&workers[2].queues, &workers[2].actors), (&vec![queue("r")], &vec![actor("b")]));
    when.assert_holds(workers[2].started_at);
    when.later(LEASE).assert_holds(workers[2].lease_expires_at);
    assert_eq!(workers[0].lease_left, Duration::ZERO, "it has ended");
    assert!(workers[2].lease_left > Duration::ZERO && workers[2].lease_left <= LEASE);
    let live: Vec<_> = scene.stats().await.workers.iter().map(|summary| summary.worker).collect();
    assert_eq!(live, [alive.id], "the summary names live ones only");
    alive.release().await;
    assert_eq!(scene.workers().await.len(), 2);
}

pub(crate) async fn the_leader_is_named_while_its_lease_runs(scene: Scene<'_>) {
    let leader = async || scene.store.leader().await.expect("reading succeeds");
    assert_eq!(leader().await, None);
    let (first, when) = scene.during(scene.leading()).await;
    let summary = leader().await.expect("somebody leads");
    let expected = LeaderSummary { worker: first.worker.id, epoch: first.epoch.0, ..summary };
    assert_eq!(summary, expected);
    when.later(LEADER_LEASE).assert_holds(summary.expires_at);
    assert!(summary.lease_left > Duration::ZERO && summary.lease_left <= LEADER_LEASE);
    scene.advance(LEADER_LEASE).await;
    assert_eq!(leader().await, None);
    let second = scene.leading().await;
    let summary = leader().await.expect("somebody leads");
    assert_eq!((summary.worker, summary.epoch), (second.worker.id, second.epoch.0));
    second.step_down().await;
    assert_eq!(leader().await, None);
}

pub(crate) async fn a_queue_counts_live_workers_only(scene: Scene<'_>) {
    scene.add(draft()).await;
    let expired = scene.worker().await;
    let released = scene.worker().await;
    scene.advance(LEASE / 2).await;
    scene.worker().await;
    scene.worker_for(&["other"], &["a"]).await;
    let workers = async || {
        let queues = scene.queues().await;
        queues.into_iter().find(|summary| summary.queue == queue("q")).expect("it has a job").workers
    };
    assert_eq!(workers().await, 3);
    released.release().await;
    assert_eq!(workers().await, 2);
    scene.advance(LEASE / 2).await;
    assert_eq!(expired.summary().await, None);
    assert_eq!(workers().await, 1);
}

pub(crate) async fn stats_count_every_status(scene: Scene<'_>) {
    let stats = scene.stats().await;
    assert_eq!(stats.jobs, Status::ALL.map(|status| (status, Count::default())));
    assert_eq!((stats.workers, stats.leader, stats.unserved), (vec![], None, vec![]));

    for outcome in [succeeded(), succeeded(), failed_for_good(), Outcome::Cancelled { error: None }] {
        let (worker, job) = scene.running(draft()).await;
        worker.end(&job, outcome).await;
    }
    let (worker, _running) = scene.running(draft()).await;
    scene.enqueue([draft(), draft(), draft(), draft().after(HOUR)]).await;
    let expected = |status| match status {
        Status::Pending => 3,
        Status::Succeeded => 2,
        Status::Scheduled | Status::Running | Status::Failed | Status::Cancelled => 1,
        _ => 0,
    };
    assert_eq!(scene.stats().await.jobs, Status::ALL.map(|status| (status, Count::of(expected(status)))));
    assert_eq!(worker.summary().await.expect("alive").running, Count::of(1));
}

pub(crate) async fn stats_name_ready_jobs_that_nobody_serves(scene: Scene<'_>) {
    let worker = scene.worker_for(&["q", "r"], &["a"]).await;
    scene.enqueue([draft(), draft().queue("r")]).await;
    scene.enqueue([draft().actor("b"), draft().actor("b"), draft().queue("s"), draft()]).await;
    scene.add(draft().actor("later").after(HOUR)).await;
    // Serves the actor, but not in this queue.
    scene.worker_for(&["s"], &["b"]).await;
    let unserved = |of_queue, of_actor, jobs| ActorSummary {
        queue: queue(of_queue),
        actor: actor(of_actor),
        pending: Count::of(jobs),
    };
    let nobody = [unserved("q", "b", 2), unserved("s", "a", 1)];
    assert_eq!(scene.stats().await.unserved, nobody, "by queue and actor");
    worker.release().await;
    let nobody = [unserved("q", "a", 2), unserved("q", "b", 2), unserved("r", "a", 1), unserved("s", "a", 1)];
    assert_eq!(scene.stats().await.unserved, nobody);
}

pub(crate) async fn an_expired_worker_serves_nobody(scene: Scene<'_>) {
    scene.worker().await;
    scene.add(draft()).await;
    assert_eq!(scene.stats().await.unserved, []);
    scene.advance(LEASE).await;
    let stats = scene.stats().await;
    assert_eq!(stats.workers, []);
    assert_eq!(stats.unserved.len(), 1);
}

pub(crate) async fn counts_stop_at_their_bound(scene: Scene<'_>) {
    let batch = |jobs| (0..jobs).map(|_| draft());
    for _ in 0..4 {
        scene.enqueue(batch(Count::BOUND / 4)).await;
    }
    let exact = Count { value: Count::BOUND, capped: false };
    assert_eq!(scene.count(Status::Pending).await, exact);
    assert_eq!(scene.queues().await[0].pending, exact);
    assert_eq!(scene.stats().await.unserved[0].pending, exact);
    scene.enqueue(batch(2)).await;
    let capped = Count { value: Count::BOUND, capped: true };
    assert_eq!(scene.count(Status::Pending).await, capped);
    assert_eq!(scene.queues().await[0].pending, capped);
    assert_eq!(scene.stats().await.unserved[0].pending, capped);
}

pub(crate) async fn a_backdated_job_has_waited_since_its_time(scene: Scene<'_>) {
    scene.add(draft().at(scene.now().await - HOUR)).await;
    let waited = scene.queues().await[0].oldest_pending.expect("a job is ready");
    assert!(waited >= HOUR && waited < HOUR + MINUTE, "{waited:?}");
}
