//! Workers die by `kill -9` all the time.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::crew::{Deed, WITHIN};
use crate::scene::{Scene, fact, size};

const WORKERS: u64 = 4;
const SLOTS: u32 = 50;
const LEASE: Duration = Duration::from_secs(3);
const BETWEEN: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario for `cargo xtask soak`"]
async fn workers_killed_every_2_s() {
    let (jobs, kills) = (size("TASKQ_SOAK_JOBS", 2_000, 100_000), size("TASKQ_SOAK_KILLS", 3, 15));
    let scene = Scene::new().await;
    // Jobs so long that there is work beyond the last kill.
    let duration = kills * 2_000 * WORKERS * u64::from(SLOTS) * 13 / (jobs * 10);
    let enqueued = scene.enqueue(jobs, &Deed::Sleep(duration.max(1))).await;

    let mut member = scene.member(LEASE);
    member.slots = SLOTS;
    let begun = Instant::now();
    let mut mates = Vec::new();
    for _ in 0..WORKERS {
        mates.push(member.start().await);
    }
    let mut next = Instant::now();
    let mut beheadings = 0;
    for kill in 0..kills {
        next += BETWEEN;
        sleep_until(next).await;
        let victim = usize::try_from(kill % WORKERS).unwrap();
        let leader = "SELECT count(*) FROM taskq.leader l JOIN taskq.workers w ON w.id = l.worker
                      WHERE l.expires_at > clock_timestamp() AND (w.info->>'pid')::bigint = ";
        beheadings += scene.number(&format!("{leader}{}", mates[victim].id())).await;
        mates[victim].process.kill().await.unwrap();
        scene.harness().killed(mates[victim].id()).unwrap();
        mates[victim] = member.spawn();
    }
    let left = scene.number("SELECT count(*) FROM taskq.jobs WHERE finished_at IS NULL").await;
    scene.all_ended(WITHIN * 5).await;
    let took = begun.elapsed();

    fact("workers", WORKERS);
    fact("kills", format!("{kills}, {beheadings} of them of the leader"));
    fact("unfinished jobs after the last kill", left);
    fact("seconds from the first worker to the last job", took.as_secs());
    let mut stale = 0;
    for mate in mates {
        let ended = mate.stop().await;
        assert_eq!(ended.code, Some(0), "{:#?}", ended.output);
        stale += ended.count("stale");
    }
    fact("stale outcomes", stale);
    let query = "SELECT max(n) FROM (SELECT count(*) AS n FROM taskq.job_attempts
                 WHERE outcome = 'crashed' GROUP BY job_id UNION ALL SELECT 0) x";
    let crashes = scene.number(query).await;
    fact("most crashed attempts of a job", crashes);
    // One more than there were crashes: every job succeeded in the end.
    assert!(crashes.unsigned_abs() <= kills, "{crashes} crashes at {kills} kills");
    let unsuccessful = scene.number("SELECT count(*) FROM taskq.jobs WHERE status <> 'succeeded'").await;
    assert_eq!(unsuccessful, 0);
    scene.check(&enqueued).await;
}
