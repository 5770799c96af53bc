//! The leader's sweeps beside work: events that expire in masses, a sweep that is too slow, many due at once, many lost.

use std::time::{Duration, Instant};

use taskq::prelude::*;
use taskq::store::{Setting, Sweep, SweepSummary};
use taskq_testkit::wait_until;

use crate::crew::{Deed, WITHIN};
use crate::rate::Rate;
use crate::scene::{Scene, fact, ms, new_job, size};

const LEASE: Duration = Duration::from_secs(30);

async fn summary(taskq: &TaskQ, sweep: Sweep) -> SweepSummary {
    taskq.sweeps().await.unwrap().into_iter().find(|it| it.sweep == sweep).unwrap()
}

/// How late jobs started that wait for nothing: the 95th of a hundred, in milliseconds.
const LATE: &str = "SELECT coalesce(percentile_disc(0.95) WITHIN GROUP (
        ORDER BY (extract(epoch FROM started_at - scheduled_at) * 1000)::bigint), 0) FROM taskq.jobs WHERE started_at IS NOT NULL";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario for `cargo xtask soak`"]
async fn expired_events() {
    let scene = Scene::new().await;
    let (taskq, admin) = (scene.taskq().await, scene.admin().await);
    let expired = size("TASKQ_SOAK_EVENTS", 30_000, 80_000);
    let insert = |count: u64, age: &str| {
        format!(
            "INSERT INTO taskq.job_events (job_id, occurred_at, kind)
             SELECT gen_random_uuid(), now() - interval '{age}', 'expired' FROM generate_series(1, {count})"
        )
    };
    admin.batch_execute(&insert(expired, "8 days")).await.unwrap();
    // What each commit deletes.
    admin
        .batch_execute(
            "CREATE TABLE drained (xid xid8, events bigint);
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO public.drained SELECT pg_current_xact_id(), count(*) FROM gone; RETURN NULL; END $$;
             CREATE TRIGGER note AFTER DELETE ON taskq.job_events REFERENCING OLD TABLE AS gone
                 FOR EACH STATEMENT EXECUTE FUNCTION note()",
        )
        .await
        .unwrap();
    let rate = Rate::start(taskq.clone(), |_| Deed::Sleep(1));
    let begun = Instant::now();
    let member = scene.member(LEASE).start().await;
    let left = "SELECT count(*) FROM taskq.job_events WHERE kind = 'expired'";
    wait_until("the end of the expired events", WITHIN * 3, async || scene.number(left).await == 0).await;
    fact("expired events", expired);
    fact("drained within ms", ms(begun.elapsed()));
    let commits = "SELECT count(*) FROM drained WHERE events > 0";
    fact("commits", scene.number(commits).await);
    let most = scene
        .number("SELECT max(n) FROM (SELECT sum(events)::bigint AS n FROM drained GROUP BY xid) x")
        .await;
    fact("most events of a commit", most);
    assert!(most <= 10_000);

    // Lowered, it takes effect without a restart.
    admin.batch_execute(&insert(5_000, "2 days")).await.unwrap();
    let begun = Instant::now();
    taskq.set(Setting::EventRetentionPeriod(Duration::from_hours(24))).await.unwrap();
    wait_until("the lowered retention", WITHIN, async || scene.number(left).await == 0).await;
    fact("a lowered retention took effect within ms", ms(begun.elapsed()));
    wait_until("its note", WITHIN, async || summary(&taskq, Sweep::Events).await.swept == expired + 5_000)
        .await;

    let ids = rate.stop().await;
    scene.all_ended(WITHIN * 2).await;
    fact("95th of 100 starts, ms late", scene.number(LATE).await);
    assert_eq!(member.stop().await.code, Some(0));
    scene.check(&ids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario for `cargo xtask soak`"]
async fn slow_sweep() {
    let scene = Scene::new().await;
    let (taskq, admin) = (scene.taskq().await, scene.admin().await);
    let expired = size("TASKQ_SOAK_EVENTS", 40_000, 120_000);
    admin
        .batch_execute(&format!(
            "INSERT INTO taskq.job_events (job_id, occurred_at, kind)
             SELECT gen_random_uuid(), now() - interval '8 days', 'expired' FROM generate_series(1, {expired});
             CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN PERFORM pg_sleep(0.002); RETURN old; END $$;
             CREATE TRIGGER dawdle BEFORE DELETE ON taskq.job_events FOR EACH ROW EXECUTE FUNCTION dawdle()"
        ))
        .await
        .unwrap();
    let member = scene.member(LEASE).start().await;
    wait_until("its halving", WITHIN, async || {
        let told = summary(&taskq, Sweep::Events).await;
        told.batch.is_some_and(|batch| batch <= 625) && told.rows > 0
    })
    .await;
    let told = summary(&taskq, Sweep::Events).await;
    fact("batch of the slow sweep", told.batch.unwrap());
    fact("its last error", told.last_error.unwrap());
    // Meanwhile the others run: jobs that become due start soon.
    let mut ids = Vec::new();
    for _ in 0..50 {
        let job = new_job(&taskq, &Deed::Sleep(1));
        let job = taskq::NewJob { schedule: taskq::Schedule::After(Duration::from_millis(300)), ..job };
        ids.push(job.id.0);
        taskq.enqueue_raw(vec![job]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    scene.all_ended(WITHIN).await;
    fact("95th of 100 starts beside it, ms late", scene.number(LATE).await);
    let due = summary(&taskq, Sweep::Promote).await;
    assert_eq!(due.last_error, None, "another sweep failed");

    let begun = Instant::now();
    admin.batch_execute("DROP TRIGGER dawdle ON taskq.job_events").await.unwrap();
    let left = "SELECT count(*) FROM taskq.job_events";
    wait_until("its recovery", WITHIN, async || scene.number(left).await == 0).await;
    fact("recovered and drained within ms", ms(begun.elapsed()));
    wait_until("its note", WITHIN, async || summary(&taskq, Sweep::Events).await.swept == expired).await;
    assert_eq!(member.stop().await.code, Some(0));
    scene.check(&ids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario for `cargo xtask soak`"]
async fn due_and_lost_at_once() {
    let scene = Scene::new().await;
    let (taskq, admin) = (scene.taskq().await, scene.admin().await);
    let (due, lost) = (size("TASKQ_SOAK_DUE", 5_000, 20_000), size("TASKQ_SOAK_LOST", 10_000, 50_000));
    admin
        .batch_execute(&format!(
            "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload)
             SELECT gen_random_uuid(), now(), now() - interval '1 s', 'scheduled', 'due', 'a', '1' FROM generate_series(1, {due})"
        ))
        .await
        .unwrap();
    let begun = Instant::now();
    let leader = scene.leading().await;
    let left = "SELECT count(*) FROM taskq.jobs WHERE status = 'scheduled'";
    wait_until("the end of what was due", WITHIN, async || scene.number(left).await == 0).await;
    let took = begun.elapsed();
    fact("due jobs", due);
    fact("ready within ms, the leader's start included", ms(took));
    wait_until("its note", WITHIN, async || summary(&taskq, Sweep::Promote).await.swept == due).await;
    let told = summary(&taskq, Sweep::Promote).await;
    fact("ms of its batches", ms(told.duration.unwrap()));

    admin
        .batch_execute(&format!(
            "INSERT INTO taskq.workers (id, started_at, beat_at, lease_expires_at, queues, actors)
             SELECT gen_random_uuid(), now(), now(), now() - interval '1 s', '{{q}}', '{{gone}}' FROM generate_series(1, 50);
             INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload, locked_by_worker, started_at,
                 attempt, claim_epoch)
             SELECT gen_random_uuid(), now(), now(), 'running', 'q', 'a', '1', w.id, now(), 1, 1
             FROM taskq.workers w, generate_series(1, {lost} / 50) WHERE w.actors = '{{gone}}'"
        ))
        .await
        .unwrap();
    let begun = Instant::now();
    let left = "SELECT count(*) FROM taskq.jobs WHERE status = 'running'";
    wait_until("the rescue", WITHIN, async || scene.number(left).await == 0).await;
    fact("lost jobs of 50 workers", lost);
    fact("taken back within ms", ms(begun.elapsed()));
    leader.stop();
    leader.join().await.unwrap();
}
