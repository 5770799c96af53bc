//! A worker is stopped past its lease and goes on later.

use std::time::Duration;

use taskq_testkit::wait_until;

use crate::crew::{Deed, WITHIN};
use crate::scene::{Scene, fact, size};

const LEASE: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario for `cargo xtask soak`"]
async fn a_worker_stopped_past_its_lease() {
    let jobs = size("TASKQ_SOAK_JOBS", 5, 20);
    let scene = Scene::new().await;
    let leader = scene.leading().await;
    let gate = scene.log.path().join("gate");
    let mut member = scene.member(LEASE);
    (member.slots, member.threads) = (u32::try_from(jobs).unwrap(), usize::try_from(jobs).unwrap());
    let mut first = member.start().await;
    let enqueued = scene.enqueue(jobs, &Deed::Gate(gate.clone())).await;
    scene.begun(jobs).await;
    first.process.freeze().await.unwrap();
    scene.harness().frozen(first.id()).unwrap();

    let second = member.start().await;
    std::fs::write(&gate, "").unwrap();
    scene.all_ended(WITHIN).await;
    first.process.thaw().unwrap();
    let late = "an outcome came too late";
    wait_until("every late outcome in the log", WITHIN, async || {
        let lines = first.process.stdout().into_iter().filter(|line| line.contains(late));
        lines.count() as u64 == jobs
    })
    .await;
    let first = first.stop().await;
    let second = second.stop().await;
    let both_epochs = |line: &&String| line.contains(late) && line.contains("current_epoch=2");
    fact("stale outcomes of the stopped worker", first.count("stale"));
    fact("of them logged with both epochs", first.output.iter().filter(both_epochs).count());
    let stand =
        "SELECT count(*) FROM taskq.jobs WHERE status = 'succeeded' AND result = '2' AND claim_epoch = 2";
    let stand = scene.number(stand).await;
    fact("results of the second attempt that stand", stand);
    assert_eq!((first.count("stale"), first.count("succeeded"), first.code), (jobs, 0, Some(0)));
    assert_eq!((second.count("stale"), second.count("succeeded"), second.code), (0, jobs, Some(0)));
    assert_eq!(stand.unsigned_abs(), jobs);
    assert!(first.output.iter().any(|line| both_epochs(&line)));
    scene.check(&enqueued).await;
    leader.stop();
    leader.join().await.unwrap();
}
