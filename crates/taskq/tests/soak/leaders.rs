//! A leader is stopped past its lease, and another leads when it goes on.

use std::time::Duration;

use taskq::Status;
use taskq_testkit::wait_until;

use crate::by_hand::ByHand;
use crate::crew::{Deed, Member, Task, WITHIN};
use crate::scene::{Scene, fact};

const LEASE: Duration = Duration::from_secs(3);
/// For how long the replaced leader is watched.
const WATCHED: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario for `cargo xtask soak`"]
async fn two_leaders() {
    let scene = Scene::new().await;
    let taskq = scene.taskq().await;
    let admin = scene.admin().await;
    let level = "info,taskq_core::worker::maintenance=debug".to_owned();
    let mut first = Member { level, ..scene.member(LEASE) }.start().await;
    wait_until("its leadership", WITHIN, async || taskq.leader().await.unwrap().is_some()).await;
    let epoch = taskq.leader().await.unwrap().unwrap().epoch;
    first.process.freeze().await.unwrap();
    scene.harness().frozen(first.id()).unwrap();

    let second = ByHand::register(&taskq, Duration::from_mins(1)).await;
    wait_until("the end of the first one's lease", WITHIN, async || second.leads().await).await;
    let leader = taskq.leader().await.unwrap().unwrap();
    fact("epochs of the leaders", format!("{epoch} and {}", leader.epoch));
    assert_eq!(leader.epoch, epoch + 1);

    let dead = ByHand::register(&taskq, Duration::from_secs(1)).await;
    let held = dead.claim_one().await;
    let due = taskq.enqueue(&Task(Deed::Sleep(0))).run_in(Duration::from_millis(200)).await.unwrap().id();
    wait_until("something for a leader to do", WITHIN, async || {
        let row = "SELECT EXISTS (SELECT FROM taskq.workers WHERE actors = '{by-hand}' AND lease_expires_at < clock_timestamp())
            AND EXISTS (SELECT FROM taskq.jobs WHERE status = 'scheduled' AND scheduled_at < clock_timestamp())";
        admin.query_one(row, &[]).await.unwrap().get(0)
    })
    .await;
    let before = first.process.stdout().len();
    first.process.thaw().unwrap();
    let status = async |id| taskq.status(id).await.unwrap();
    let sessions = format!(
        "SELECT count(*) FROM taskq.workers WHERE (info->>'pid')::bigint = {} AND state = 'active'
            AND beat_at > started_at AND lease_expires_at > clock_timestamp()",
        first.id()
    );
    let watched = tokio::time::Instant::now() + WATCHED;
    // The thawed one has a new session and asks for the leadership with every beat.
    wait_until("its new session's beats", WITHIN, async || {
        assert!(second.leads().await, "it stays the leader");
        scene.number(&sessions).await == 1 && tokio::time::Instant::now() > watched
    })
    .await;
    assert_eq!((status(held).await, status(due).await), (Status::Running, Status::Scheduled));
    let sweeps = |lines: &[String]| {
        let sweep = |line: &&String| {
            ["a sweep did something", "workers are lost", "were taken from them"]
                .iter()
                .any(|what| line.contains(what))
        };
        lines.iter().filter(sweep).count()
    };
    let swept = sweeps(&first.process.stdout()[before..]);
    fact("sweeps of the replaced leader in 5 s", swept);
    assert_eq!(swept, 0);

    // As a check of the check: once it leads again, it does all that.
    second.release().await;
    wait_until("its sweeps", WITHIN, async || {
        status(held).await != Status::Running && status(due).await == Status::Succeeded
    })
    .await;
    let swept = sweeps(&first.process.stdout()[before..]);
    fact("its sweeps once it leads again", swept);
    assert!(swept >= 3, "{swept}");
    taskq.cancel([held], None).await.unwrap();
    assert_eq!(first.stop().await.code, Some(0));
    scene.check(&[held.0, due.0]).await;
}
