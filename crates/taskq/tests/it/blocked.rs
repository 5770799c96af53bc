//! A worker whose runtime of handlers is blocked, on a real server.

use std::sync::Mutex;
use std::time::Duration;

use taskq::prelude::*;
use taskq::store::WorkerState;
use taskq_testkit::wait_until;

use crate::manual::database;

/// The shorter, the less of a busy machine's pauses it outlasts.
const LEASE: Duration = Duration::from_secs(4);
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(actor = "blocks", output = i64)]
struct Blocks;

/// Whether the worker that is blocked has kept its session for longer than one lease can last.
async fn is_twice_as_long(taskq: &TaskQ) -> bool {
    let workers = taskq.workers().await.unwrap();
    let blocked = workers.iter().find(|worker| worker.actors[0].as_str() == "blocks");
    blocked.is_some_and(|worker| {
        let lasts = worker.lease_expires_at.duration_since(worker.started_at);
        lasts >= (LEASE * 2).try_into().unwrap()
    })
}

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
        wait_until("a leader", PATIENCE, async || leader.leader().await.unwrap().is_some()).await;

        // Who is not blocked sees how long the lease has become.
        let (renewed, twice) = std::sync::mpsc::channel::<()>();
        engine.spawn(async move {
            while !is_twice_as_long(&leader).await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            drop(renewed);
        });
        let handle = taskq.enqueue(&Blocks).await.unwrap();
        let twice = Mutex::new(twice);
        let worker = Worker::builder(&taskq)
            .queue("default", 2)
            .handle::<Blocks>(move |_: Blocks, ctx: Context| {
                // Blocks the runtime's only thread.
                let _ = twice.lock().unwrap().recv();
                async move { Ok(ctx.epoch().0) }
            })
            .lease(LEASE)
            .build()
            .unwrap()
            .start();
        assert_eq!(handle.wait_timeout(PATIENCE).await.unwrap(), 1, "by its first epoch");
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
