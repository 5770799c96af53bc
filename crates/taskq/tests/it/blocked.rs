//! A worker whose runtime of handlers is blocked, on a real server.

use std::time::Duration;

use taskq::prelude::*;
use taskq::store::WorkerState;

use crate::manual::database;

const LEASE: Duration = Duration::from_secs(1);

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(actor = "blocks", output = i64)]
struct Blocks;

#[test]
fn beats_go_on_while_handlers_block_their_runtime_for_two_leases() {
    let user = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (report, record) = user.block_on(async {
        let database = database().await;
        let taskq = TaskQ::connect(database.dsn()).await.unwrap();
        // Another process leads, and would reclaim what is lost.
        let leader = TaskQ::connect(database.dsn()).await.unwrap();
        let engine =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let sweeper = {
            let _inside = engine.enter();
            Worker::builder(&leader)
                .queue("other", 1)
                .actor("other", async |_, _| Ok(None))
                .build()
                .unwrap()
                .start()
        };
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        while leader.leader().await.unwrap().is_none() {
            assert!(tokio::time::Instant::now() < deadline, "nobody leads");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }

        let handle = taskq.enqueue(&Blocks).await.unwrap();
        let worker = Worker::builder(&taskq)
            .queue("default", 2)
            .handle::<Blocks>(async |_: Blocks, ctx: Context| {
                std::thread::sleep(LEASE * 2);
                Ok(ctx.epoch().0)
            })
            .lease(LEASE)
            .build()
            .unwrap()
            .start();
        assert_eq!(handle.wait_timeout(Duration::from_secs(20)).await.unwrap(), 1, "by its first epoch");
        let live = taskq.workers().await.unwrap();
        assert!(live.len() == 2 && live.iter().all(|worker| worker.state == WorkerState::Active), "{live:?}");
        worker.stop();
        let report = worker.join().await.unwrap();
        sweeper.stop();
        sweeper.join().await.unwrap();
        let record = taskq.store().job(handle.id()).await.unwrap().unwrap();
        engine.shutdown_background();
        (report, record)
    });
    assert_eq!((report.succeeded, report.stale, report.exit_code()), (1, 0, 0));
    assert_eq!((record.attempt, record.epoch.0), (1, 1));
}
