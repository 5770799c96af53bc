//! A worker is asked to end while a hundred handlers run.

use std::time::{Duration, Instant};

use taskq_testkit::Signal;

use crate::crew::{Deed, Member, WITHIN};
use crate::scene::{Scene, fact, ms};

const LEASE: Duration = Duration::from_secs(4);
const GRACE: Duration = Duration::from_secs(4);
const FORCED: Duration = Duration::from_secs(2);

fn member(scene: &Scene, grace: Duration) -> Member {
    Member { slots: 100, threads: 4, grace_ms: ms(grace), forced_ms: ms(FORCED), ..scene.member(LEASE) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario for `cargo xtask soak`"]
async fn sigterm_with_100_handlers() {
    let scene = Scene::new().await;
    let mut mate = member(&scene, GRACE).start().await;
    // One never returns, 60 could not be awaited, 39 end within the grace, and 200 more would like their slots.
    let mut enqueued = scene.enqueue(1, &Deed::Endless).await;
    enqueued.extend(scene.enqueue(60, &Deed::Hang).await);
    enqueued.extend(scene.enqueue(39, &Deed::Sleep(3_000)).await);
    scene.begun(100).await;
    enqueued.extend(scene.enqueue(200, &Deed::Sleep(10)).await);

    let admin = scene.admin().await;
    let signal: String = admin.query_one("SELECT clock_timestamp()::text", &[]).await.unwrap().get(0);
    let begun = Instant::now();
    mate.process.signal(Signal::TERM).unwrap();
    let ended = mate.ended().await;
    let took = begun.elapsed();
    scene.harness().killed(mate.id()).unwrap();
    let claimed_since = format!(
        "SELECT coalesce(max(extract(epoch FROM started_at - '{signal}') * 1000)::bigint, 0) FROM (
            SELECT started_at FROM taskq.jobs UNION ALL SELECT started_at FROM taskq.job_attempts) x
         WHERE started_at > '{signal}'"
    );
    let latest = scene.number(&claimed_since).await;
    fact("latest claim after the signal, milliseconds", latest);
    fact("milliseconds from the signal to the exit", ms(took));
    fact("exit code", format!("{:?}", ended.code));
    for name in ["succeeded", "released", "stuck", "stale", "unsettled"] {
        fact(name, ended.count(name));
    }
    assert!(latest <= 100, "a claim {latest} ms after the signal");
    assert!(took >= GRACE, "the grace is honoured");
    assert_eq!(ended.code, Some(1), "as documented for a stuck attempt: {:#?}", ended.output);
    assert_eq!((ended.count("succeeded"), ended.count("released"), ended.count("stuck")), (39, 60, 1));

    let leader = scene.leading().await;
    let next = member(&scene, GRACE).start().await;
    scene.all_ended(WITHIN).await;
    assert_eq!(next.stop().await.code, Some(0));
    let burnt = "SELECT count(*) FROM taskq.jobs WHERE attempt <> 1";
    let burnt = scene.number(burnt).await;
    fact("jobs with a burnt attempt", burnt);
    assert_eq!(burnt, 1, "only the one that never returned");
    scene.check(&enqueued).await;
    leader.stop();
    leader.join().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario for `cargo xtask soak`"]
async fn a_second_signal() {
    let scene = Scene::new().await;
    let mut mate = member(&scene, WITHIN).start().await;
    let enqueued = scene.enqueue(100, &Deed::Hang).await;
    scene.begun(100).await;
    mate.process.signal(Signal::TERM).unwrap();
    mate.process.wait_for_line("the worker shuts down", WITHIN).await;
    let begun = Instant::now();
    mate.process.signal(Signal::TERM).unwrap();
    let ended = mate.ended().await;
    fact("milliseconds from the second signal to the exit", ms(begun.elapsed()));
    fact("released", ended.count("released"));
    assert!(begun.elapsed() < WITHIN / 2, "of the grace nothing is left");
    assert_eq!((ended.code, ended.count("released"), ended.count("stuck")), (Some(0), 100, 0));
    let waiting = "SELECT count(*) FROM taskq.jobs WHERE status = 'pending' AND attempt = 0";
    assert_eq!(scene.number(waiting).await, 100, "no attempt is burnt");

    let next = member(&scene, GRACE).start().await;
    scene.all_ended(WITHIN).await;
    assert_eq!(next.stop().await.code, Some(0));
    scene.check(&enqueued).await;
}
