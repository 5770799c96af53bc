//! Handlers block every thread of their runtime; clocks of machines differ.
//!
//! A worker's wall clock cannot be set for one process. Nothing needs it: `clippy.toml` bans reading it, the store's clock
//! decides what is stored and the process's monotonic clock when a lease ends. What is left are the ids, which are made of
//! the time: they are tried here as machines ten minutes off would make them.

use std::time::Duration;

use taskq::{JobId, NewJob};
use uuid::{NoContext, Timestamp, Uuid};

use crate::crew::{Deed, Member, WITHIN};
use crate::scene::{Scene, fact, ms, new_job};

const LEASE: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario for `cargo xtask soak`"]
async fn a_runtime_blocked_for_two_leases() {
    let scene = Scene::new().await;
    let leader = scene.leading().await;
    let mate = Member { slots: 8, threads: 2, ..scene.member(LEASE) }.start().await;
    let enqueued = scene.enqueue(4, &Deed::Block(ms(LEASE * 2))).await;
    scene.all_ended(WITHIN * 2).await;
    let ended = mate.stop().await;
    let lost = ended.output.iter().filter(|line| line.contains("lease is lost")).count();
    let reclaimed = scene.number("SELECT count(*) FROM taskq.jobs WHERE claim_epoch <> 1").await;
    fact("leases for which the runtime was blocked", 4);
    fact("sessions lost", lost);
    fact("jobs reclaimed", reclaimed);
    assert_eq!((lost, reclaimed, ended.count("stale"), ended.code), (0, 0, 0, Some(0)));
    scene.check(&enqueued).await;
    leader.stop();
    leader.join().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario for `cargo xtask soak`"]
async fn ids_of_clocks_ten_minutes_off() {
    let scene = Scene::new().await;
    let taskq = scene.taskq().await;
    let mut jobs = Vec::new();
    for minutes in [10, -10, 0, -10, 10] {
        let job = new_job(&taskq, &Deed::Sleep(1));
        let job = NewJob { id: off(job.id, minutes), ..job };
        // Apart, so that each has a time of its own by the store's clock.
        taskq.enqueue_raw(vec![job.clone()]).await.unwrap();
        jobs.push(job.id.0);
    }
    let mate = Member { slots: 1, ..scene.member(LEASE) }.start().await;
    scene.all_ended(WITHIN).await;
    assert_eq!(scene.starts(), jobs, "in the order of the store's clock");
    fact("jobs that ran in the order of the store's clock", jobs.len());
    assert_eq!(mate.stop().await.code, Some(0));
    scene.check(&jobs).await;
}

/// The id as a machine would have made it whose clock is off.
fn off(id: JobId, minutes: i64) -> JobId {
    let (seconds, nanoseconds) = id.0.get_timestamp().unwrap().to_unix();
    let seconds = seconds.saturating_add_signed(minutes * 60);
    JobId(Uuid::new_v7(Timestamp::from_unix(NoContext, seconds, nanoseconds)))
}
