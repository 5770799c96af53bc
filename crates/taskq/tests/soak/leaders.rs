//! A leader is stopped past its lease, and another leads when it goes on.

use std::time::Duration;

use taskq::{NewJob, Schedule, Status};
use taskq_testkit::wait_until;
use tokio::time::Instant;

use crate::by_hand::ByHand;
use crate::crew::{Deed, Member, Task, WITHIN};
use crate::scene::{Scene, fact, ms, new_job, size};

const LEASE: Duration = Duration::from_secs(3);
/// For how long the replaced leader is watched.
const WATCHED: Duration = Duration::from_secs(5);

/// For how long a leader is stopped.
fn frozen() -> Duration {
    Duration::from_secs(size("TASKQ_SOAK_FROZEN", 20, 60))
}

/// Notes every promotion and every move to the archive, and lets jobs be archived at once.
const NOTES: &str = "
    CREATE TABLE written (job uuid, what text, epoch bigint);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO public.written VALUES (new.id, TG_ARGV[0], new.claim_epoch); RETURN new; END $$;
    CREATE FUNCTION hurry() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        new.prune_at := clock_timestamp(); RETURN new; END $$;
    CREATE TRIGGER promoted AFTER UPDATE ON taskq.jobs FOR EACH ROW
        WHEN (old.status = 'scheduled' AND new.status = 'pending') EXECUTE FUNCTION note('promoted');
    CREATE TRIGGER archived AFTER INSERT ON taskq.jobs_archive FOR EACH ROW EXECUTE FUNCTION note('archived');
    CREATE TRIGGER hurry BEFORE UPDATE ON taskq.jobs FOR EACH ROW WHEN (new.prune_at IS NOT NULL) EXECUTE FUNCTION hurry()";

/// A leader is stopped beside another worker while much is to be promoted and archived: everything happens once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario for `cargo xtask soak`"]
async fn a_leader_stopped_at_work() {
    let scene = Scene::new().await;
    let (taskq, admin) = (scene.taskq().await, scene.admin().await);
    admin.batch_execute(NOTES).await.unwrap();
    let mut first = scene.member(LEASE).start().await;
    wait_until("its leadership", WITHIN, async || taskq.leader().await.unwrap().is_some()).await;
    let epoch = taskq.leader().await.unwrap().unwrap().epoch;
    let second = scene.member(LEASE).start().await;

    let (stop, stopped) = tokio::sync::watch::channel(false);
    let client = taskq.clone();
    let enqueuing = tokio::spawn(async move {
        let (mut enqueued, mut ticks) = (0_u64, tokio::time::interval(Duration::from_millis(50)));
        while !*stopped.borrow() {
            ticks.tick().await;
            let job = || NewJob {
                schedule: Schedule::After(Duration::from_secs(1)),
                ..new_job(&client, &Deed::Sleep(1))
            };
            client.enqueue_raw((0..10).map(|_| job()).collect()).await.unwrap();
            enqueued += 10;
        }
        enqueued
    });
    let archived = "SELECT count(*) FROM written WHERE what = 'archived'";
    wait_until("its work", WITHIN, async || scene.number(archived).await > 0).await;
    first.process.freeze().await.unwrap();
    scene.harness().frozen(first.id()).unwrap();
    let stopped_at = Instant::now();
    wait_until("the other's leadership", WITHIN, async || {
        taskq.leader().await.unwrap().is_some_and(|leader| leader.epoch > epoch)
    })
    .await;
    let took_over = stopped_at.elapsed();
    fact("another leads after ms", ms(took_over));
    assert!(took_over < Duration::from_secs(30), "{took_over:?}");
    tokio::time::sleep_until(stopped_at + frozen()).await;
    first.process.thaw().unwrap();
    tokio::time::sleep(WATCHED).await;
    stop.send_replace(true);
    let enqueued = enqueuing.await.unwrap();
    let left = "SELECT count(*) FROM taskq.jobs";
    wait_until("the archive of everything", WITHIN * 2, async || scene.number(left).await == 0).await;

    fact("jobs", enqueued);
    fact("taken from the stopped one", scene.number("SELECT count(*) FROM taskq.job_attempts_archive").await);
    let twice = "SELECT count(*) FROM (SELECT FROM written GROUP BY job, what, epoch HAVING count(*) > 1) x";
    let twice = scene.number(twice).await;
    fact("promoted or archived twice", twice);
    let archived = scene.number("SELECT count(DISTINCT job) FROM written WHERE what = 'archived'").await;
    let promoted = scene.number("SELECT count(DISTINCT job) FROM written WHERE what = 'promoted'").await;
    assert_eq!((twice, archived, promoted), (0, enqueued.cast_signed(), enqueued.cast_signed()));
    // An outcome of the session that was lost is stale, or cannot be settled, which the exit code tells.
    first.stop().await;
    assert_eq!(second.stop().await.code, Some(0));
}

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
    let frozen_until = Instant::now() + frozen();

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
    wait_until("the time for which it is stopped", WITHIN * 3, async || {
        assert!(second.leads().await, "it stays the leader");
        Instant::now() >= frozen_until
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
    let watched = Instant::now() + WATCHED;
    // The thawed one has a new session and asks for the leadership with every beat.
    wait_until("its new session's beats", WITHIN, async || {
        assert!(second.leads().await, "it stays the leader");
        scene.number(&sessions).await == 1 && Instant::now() > watched
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
