//! Worker processes that stop, die, or lead without knowing better.

use std::time::Duration;

use taskq::prelude::*;
use taskq::{OutcomeKind, Status};
use taskq_testkit::invariants::{Event, ExecutionLog, Record, check, read_log};
use taskq_testkit::{TestDatabase, wait_until};
use tempfile::TempDir;

use super::by_hand::ByHand;
use super::crew::{Deed, Member, RETRY, Task};
use super::{WITHIN, leading, past};
use crate::manual::database;

/// Longer than any pause of a busy machine: where a lease must end, the test ends it.
const LEASE: Duration = Duration::from_secs(30);

struct Scene {
    database: TestDatabase,
    taskq: TaskQ,
    log: TempDir,
}

impl Scene {
    async fn new() -> Self {
        let database = database().await;
        let taskq = TaskQ::connect(database.dsn()).await.unwrap();
        Self { database, taskq, log: tempfile::tempdir().unwrap() }
    }

    fn member(&self) -> Member {
        Member::new(self.database.dsn(), self.log.path(), LEASE)
    }

    /// Ends the lease of a worker process that is dead or stopped, as if it were long ago.
    async fn expire(&self, process: u32) {
        let expire =
            "UPDATE taskq.workers SET lease_expires_at = clock_timestamp() WHERE (info->>'pid')::bigint = $1";
        let admin = self.database.connect().await.unwrap();
        assert_eq!(admin.execute(expire, &[&i64::from(process)]).await.unwrap(), 1);
    }

    fn harness(&self) -> ExecutionLog {
        ExecutionLog::open(self.log.path()).unwrap()
    }

    async fn enqueue(&self, deed: Deed) -> JobHandle<Task> {
        self.taskq.enqueue(&Task(deed)).retry(RETRY).await.unwrap()
    }

    /// Waits until so many handlers have begun: a job that the store calls running may not have got as far as that.
    async fn begun(&self, attempts: usize) {
        let begun = |record: &Record| matches!(record.event, Event::Start(_));
        wait_until("the attempt", WITHIN, async || {
            read_log(self.log.path()).unwrap().iter().filter(|record| begun(record)).count() == attempts
        })
        .await;
    }

    async fn check(&self, jobs: &[&JobHandle<Task>]) {
        let client = self.database.connect().await.unwrap();
        let ids: Vec<_> = jobs.iter().map(|job| job.id().0).collect();
        let violations = check(&client, self.log.path(), &ids).await.unwrap();
        assert!(violations.is_empty(), "{violations:#?}");
    }
}

#[tokio::test]
async fn what_a_worker_settles_after_it_was_stopped_past_its_lease_is_stale() {
    let scene = Scene::new().await;
    let leader = leading(scene.database.dsn()).await;
    let gate = scene.log.path().join("gate");
    let mut first = scene.member().start().await;
    let job = scene.enqueue(Deed::Gate(gate.clone())).await;
    scene.begun(1).await;
    first.process.freeze().await.unwrap();
    scene.harness().frozen(first.id()).unwrap();
    scene.expire(first.id()).await;

    let second = scene.member().start().await;
    std::fs::write(&gate, "").unwrap();
    assert_eq!(job.wait_timeout(WITHIN).await.unwrap(), 2, "the second worker's");
    first.process.thaw().unwrap();
    first.process.wait_for_line("an outcome came too late", WITHIN).await;
    let first = first.stop().await;
    assert_eq!((first.count("stale"), first.count("succeeded"), first.code), (1, 0, Some(0)));
    let line = first.output.iter().find(|line| line.contains("came too late")).unwrap();
    assert!(line.contains("epoch=1") && line.contains("current_epoch=2"), "both epochs: {line}");
    assert_eq!(job.wait_timeout(WITHIN).await.unwrap(), 2, "it stands");
    assert_eq!(past(&scene.taskq, job.id()).await, [(OutcomeKind::Crashed, 1, 1)]);
    let second = second.stop().await;
    assert_eq!((second.count("succeeded"), second.count("stale")), (1, 0));
    scene.check(&[&job]).await;
    leader.stop();
    leader.join().await.unwrap();
}

#[tokio::test]
async fn a_handler_that_aborts_its_process_crashes_its_job_and_its_neighbours_finish() {
    let scene = Scene::new().await;
    let leader = leading(scene.database.dsn()).await;
    let aborts = scene.taskq.enqueue(&Task(Deed::Abort(20))).max_attempts(2).retry(RETRY).await.unwrap();
    let mut neighbours = Vec::new();
    for _ in 0..5 {
        neighbours.push(scene.enqueue(Deed::Sleep(200)).await);
    }
    for death in 0..2 {
        let mut mate = scene.member().spawn();
        let ended = mate.ended().await;
        assert_eq!(ended.code, None, "death {death}, by a signal: {:#?}", ended.output);
        scene.harness().killed(mate.id()).unwrap();
        scene.expire(mate.id()).await;
    }
    let mate = scene.member().start().await;
    let error = aborts.wait_timeout(WITHIN).await.unwrap_err();
    assert!(matches!(error, taskq::WaitError::Crashed { .. }), "{error:?}");
    for neighbour in &neighbours {
        neighbour.wait_timeout(WITHIN).await.unwrap();
    }
    let ended = mate.stop().await;
    assert_eq!((ended.count("stale"), ended.code), (0, Some(0)));
    let record = scene.taskq.store().job(aborts.id()).await.unwrap().unwrap();
    assert_eq!((record.attempt, record.epoch.0), (2, 2));
    scene.check(&neighbours.iter().chain([&aborts]).collect::<Vec<_>>()).await;
    leader.stop();
    leader.join().await.unwrap();
}

/// The leader is stopped for so short a time that by its own clock it still leads.
#[tokio::test]
async fn a_leader_that_was_replaced_while_it_was_stopped_sweeps_nothing() {
    let scene = Scene::new().await;
    let admin = scene.database.connect().await.unwrap();
    let member = Member { level: "info,taskq_core=debug".to_owned(), ..scene.member() };
    let mut leads = member.start().await;
    wait_until("its leadership", WITHIN, async || scene.taskq.leader().await.unwrap().is_some()).await;
    leads.process.freeze().await.unwrap();
    // What it had sent before is done: a beat that came through now would take the lease back.
    let quiet = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle')";
    wait_until("its calls are over", WITHIN, async || admin.query_one(quiet, &[]).await.unwrap().get(0))
        .await;

    // Its lease ends early by the store's clock, and another takes it.
    admin.batch_execute("UPDATE taskq.leader SET expires_at = clock_timestamp()").await.unwrap();
    let other = ByHand::register(&scene.taskq, WITHIN * 2).await;
    assert!(other.leads().await);
    // A worker with a job dies, and another job falls due.
    let dead = ByHand::register(&scene.taskq, LEASE).await;
    let held = dead.claim_one().await;
    let expire = "UPDATE taskq.workers SET lease_expires_at = clock_timestamp()
                  WHERE id = (SELECT locked_by_worker FROM taskq.jobs WHERE id = $1)";
    assert_eq!(admin.execute(expire, &[&held.0]).await.unwrap(), 1);
    let due =
        scene.taskq.enqueue(&Task(Deed::Sleep(0))).run_in(Duration::from_millis(200)).await.unwrap().id();
    wait_until("something for a leader to do", WITHIN, async || {
        let row = "SELECT count(*) = 2 FROM (
            SELECT FROM taskq.workers WHERE lease_expires_at < clock_timestamp()
            UNION ALL SELECT FROM taskq.jobs WHERE status = 'scheduled' AND scheduled_at < clock_timestamp()) x";
        admin.query_one(row, &[]).await.unwrap().get(0)
    })
    .await;

    leads.process.thaw().unwrap();
    // Its next sweep is refused, or its next beat says so, whichever comes first.
    wait_until("it learns that another leads", WITHIN, async || {
        let told = |line: &String| line.contains("another worker leads") || line.contains("leads=false");
        leads.process.stdout().iter().any(told) || leads.process.stderr().iter().any(told)
    })
    .await;
    // It beats on, and asks for the leadership at each beat.
    let beaten = scene.taskq.workers().await.unwrap()[0].lease_expires_at;
    wait_until("its next beat", WITHIN, async || {
        assert!(other.leads().await);
        scene.taskq.workers().await.unwrap()[0].lease_expires_at > beaten
    })
    .await;
    let status = async |id| scene.taskq.status(id).await.unwrap();
    assert_eq!((status(held).await, status(due).await), (Status::Running, Status::Scheduled));

    other.release().await;
    wait_until("it leads again and sweeps", WITHIN, async || {
        status(held).await == Status::Pending && status(due).await == Status::Succeeded
    })
    .await;
    leads.stop().await;
}
