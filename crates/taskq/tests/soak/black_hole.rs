//! The network swallows everything for longer than a lease.

use std::time::Duration;

use taskq_testkit::invariants::{Event, ExecutionLog, read_log};
use taskq_testkit::{Direction, Proxy};

use crate::crew::{Deed, Member, WITHIN};
use crate::scene::{Scene, fact, short};

const JOBS: u64 = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario for `cargo xtask soak`"]
async fn a_network_that_swallows_everything() {
    let lease = Duration::from_secs(if short() { 3 } else { 30 });
    let hole = lease * 2;
    let scene = Scene::new().await;
    // It has another way to the server, and takes from the worker what it can.
    let leader = scene.leading().await;
    let proxy = Proxy::start(&scene.url).unwrap();
    let mut mate = Member::new(proxy.dsn(), scene.log.path(), lease).start().await;
    let enqueued = scene.enqueue(JOBS, &Deed::Hang).await;
    scene.begun(JOBS).await;

    proxy.black_hole(Direction::Both);
    tokio::time::sleep(hole).await;
    let left = format!(
        "SELECT (extract(epoch FROM lease_expires_at - clock_timestamp()) * 1e9)::bigint FROM taskq.workers
         WHERE (info->>'pid')::bigint = {} ORDER BY started_at LIMIT 1",
        mate.id()
    );
    // In this order, since what is measured first is then too early and not too late.
    let admin = scene.admin().await;
    let now = monotonic_now();
    let left: i64 = admin.query_one(&left, &[]).await.unwrap().get(0);
    let lease_end = i64::try_from(now).unwrap() + left;
    let records = read_log(scene.log.path()).unwrap();
    let ends: Vec<i64> = records
        .iter()
        .filter(|record| matches!(record.event, Event::End(key) if key.epoch == 1))
        .map(|record| record.at.try_into().unwrap())
        .collect();
    fact("lease and black hole, seconds", format!("{} and {}", lease.as_secs(), hole.as_secs()));
    fact("attempts ended by the worker itself", ends.len());
    let margin = lease_end - ends.iter().max().unwrap();
    fact("milliseconds from the last end to the end of the lease", margin / 1_000_000);
    assert_eq!(ends.len() as u64, JOBS);
    assert!(margin > 0, "an attempt outlived its lease");

    mate.process.signal(taskq_testkit::Signal::CONT).expect("it lives");
    proxy.heal();
    scene.all_ended(WITHIN).await;
    let ended = mate.stop().await;
    fact("stale outcomes", ended.count("stale"));
    assert_eq!(ended.code, Some(0), "{:#?}", ended.output);
    scene.check(&enqueued).await;
    leader.stop();
    leader.join().await.unwrap();
}

/// The clock of the execution log, in nanoseconds.
fn monotonic_now() -> u64 {
    let directory = tempfile::tempdir().unwrap();
    ExecutionLog::open(directory.path()).unwrap().killed(0).unwrap();
    read_log(directory.path()).unwrap()[0].at
}
