//! A system left alone: jobs come and go for long, some fail at first, workers die, and the database stays as small as it is.

use std::time::Duration;

use taskq::EventLevel;
use taskq::store::Setting;
use tokio::time::{Instant, sleep_until};

use crate::crew::{Deed, WITHIN};
use crate::rate::Rate;
use crate::scene::{Scene, fact, size};

const WORKERS: usize = 3;
const LEASE: Duration = Duration::from_secs(5);
/// How often a worker is killed.
const BETWEEN_KILLS: Duration = Duration::from_secs(20);
/// How long finished jobs stay hot, and events are kept.
const KEPT: Duration = Duration::from_mins(1);
/// How often the sizes are read.
const LOOK: Duration = Duration::from_secs(10);
/// No sweep may be further behind than this.
const BEHIND: Duration = Duration::from_secs(30);

/// Heap and indexes of the tables that must stay small: jobs, then events.
const SIZES: &str = "SELECT pg_total_relation_size('taskq.jobs'), pg_total_relation_size('taskq.job_events')";

/// Jobs that are not in exactly one place.
const ASTRAY: &str = "
    SELECT count(*) FROM unnest($1::uuid[]) e(id)
    LEFT JOIN LATERAL (
        SELECT count(*) AS places FROM (
            SELECT FROM taskq.jobs j WHERE j.id = e.id UNION ALL SELECT FROM taskq.jobs_archive a WHERE a.id = e.id) x
    ) p ON true
    WHERE p.places <> 1";
/// Jobs whose counter says something else than their attempts, the last of which is on the job.
const MISCOUNTED: &str = "
    SELECT count(*) FROM (
        SELECT id, attempt FROM taskq.jobs WHERE finished_at IS NOT NULL
        UNION ALL SELECT id, attempt FROM taskq.jobs_archive) j
    WHERE j.attempt <> 1 + (
        SELECT count(*) FROM (
            SELECT FROM taskq.job_attempts t WHERE t.job_id = j.id AND t.outcome IN ('failed', 'crashed')
            UNION ALL
            SELECT FROM taskq.job_attempts_archive t WHERE t.job_id = j.id AND t.outcome IN ('failed', 'crashed')) t)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario for `cargo xtask soak`"]
async fn left_alone() {
    let scene = Scene::new().await;
    let (taskq, admin) = (scene.taskq().await, scene.admin().await);
    for setting in [
        Setting::HotPeriod(KEPT),
        Setting::FailedHotPeriod(KEPT),
        Setting::EventRetentionPeriod(KEPT),
        Setting::EventLevel(EventLevel::All),
    ] {
        taskq.set(setting).await.unwrap();
    }
    let length = Duration::from_secs(size("TASKQ_SOAK_SECONDS", 100, 600));
    let mut mates = Vec::new();
    for _ in 0..WORKERS {
        mates.push(scene.member(LEASE).start().await);
    }
    // One in ten fails at first.
    let rate = Rate::start(taskq.clone(), |nth| if nth % 10 == 0 { Deed::FailOnce } else { Deed::Sleep(1) });
    let (begun, mut kills) = (Instant::now(), 0);
    let (mut kill_at, mut look_at) = (begun + BETWEEN_KILLS, begun + LOOK);
    let (mut jobs_sizes, mut events_sizes, mut behind) = (Vec::new(), Vec::new(), Duration::ZERO);
    while begun.elapsed() < length {
        sleep_until(kill_at.min(look_at)).await;
        if Instant::now() >= kill_at {
            kill_at += BETWEEN_KILLS;
            let victim = kills % WORKERS;
            mates[victim].process.kill().await.unwrap();
            scene.harness().killed(mates[victim].id()).unwrap();
            mates[victim] = scene.member(LEASE).spawn();
            kills += 1;
        }
        if Instant::now() >= look_at {
            look_at += LOOK;
            let row = admin.query_one(SIZES, &[]).await.unwrap();
            jobs_sizes.push(row.get::<_, i64>(0));
            events_sizes.push(row.get::<_, i64>(1));
            let sweeps = taskq.sweeps().await.unwrap();
            behind = sweeps.iter().map(|it| it.behind).max().unwrap_or_default().max(behind);
        }
    }
    let enqueued = rate.stop().await;
    scene.all_ended(WITHIN * 2).await;
    for mate in mates {
        assert_eq!(mate.stop().await.code, Some(0));
    }

    fact("seconds", length.as_secs());
    fact("kills", kills);
    fact("jobs enqueued", enqueued.len());
    fact("archived", scene.number("SELECT count(*) FROM taskq.jobs_archive").await);
    fact("most a sweep was behind, ms", behind.as_millis());
    let level = |name: &str, sizes: &[i64]| {
        let third = sizes.len() / 3;
        let most = |part: &[i64]| part.iter().copied().max().unwrap_or(1);
        let (middle, end) = (most(&sizes[third..2 * third]), most(&sizes[2 * third..]));
        fact(
            &format!("KiB of {name} in the middle and at the end"),
            format!("{}, {}", middle / 1024, end / 1024),
        );
        end.saturating_mul(100) / middle
    };
    let growth = [level("jobs", &jobs_sizes), level("events", &events_sizes)];
    let astray: i64 = admin.query_one(ASTRAY, &[&enqueued]).await.unwrap().get(0);
    fact("jobs that are not in exactly one place", astray);
    let miscounted = scene.number(MISCOUNTED).await;
    fact("jobs whose attempts do not add up", miscounted);
    assert_eq!((astray, miscounted), (0, 0));
    assert!(behind <= BEHIND, "a sweep was {behind:?} behind");
    // In the short form the sizes have no time to settle.
    if length >= Duration::from_mins(5) {
        assert!(growth.iter().all(|percent| *percent <= 130), "grown to {growth:?} %");
    }
}
