//! The network swallows everything.

use std::time::Duration;

use taskq::prelude::*;
use taskq::{OutcomeKind, RetryPolicy};
use taskq_testkit::{Direction, Proxy, wait_until};
use tokio::sync::mpsc;

use super::{Echo, WITHIN, leading, past};
use crate::manual::database;

/// The shorter, the less of a busy machine's pauses it outlasts before the network is cut.
const LEASE: Duration = Duration::from_secs(6);

/// Tells when the attempt's future begins, and when it is gone.
struct Alive(mpsc::UnboundedSender<()>);

impl Alive {
    fn begin(tell: mpsc::UnboundedSender<()>) -> Self {
        tell.send(()).unwrap();
        Self(tell)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test]
async fn a_worker_that_is_cut_off_ends_its_attempts_by_itself() {
    let database = database().await;
    let leader = leading(database.dsn()).await;
    let proxy = Proxy::start(database.dsn()).unwrap();
    let taskq = TaskQ::connect(proxy.dsn()).await.unwrap();
    let direct = TaskQ::connect(database.dsn()).await.unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = move |_: Echo, ctx: Context| {
        let alive = Alive::begin(tell.clone());
        async move {
            let _alive = alive;
            if ctx.epoch().0 == 1 {
                std::future::pending::<()>().await;
            }
            Ok(ctx.epoch().0)
        }
    };
    let worker = Worker::builder(&taskq).queue("default", 2).handle::<Echo>(handler).lease(LEASE);
    let worker = worker.build().unwrap().start();
    let handle = direct.enqueue(&Echo).retry(RetryPolicy::fixed(Duration::from_millis(50))).await.unwrap();
    let id = handle.id();
    tokio::time::timeout(WITHIN, told.recv()).await.expect("the attempt begins");

    proxy.black_hole(Direction::Both);
    // By itself: nobody can tell it anything. That this is before the end of the lease is tested where no pause of the
    // machine can come between.
    tokio::time::timeout(WITHIN, told.recv()).await.expect("the attempt ends").unwrap();
    wait_until("the reclaim", WITHIN, async || !past(&direct, id).await.is_empty()).await;
    proxy.heal();
    assert_eq!(handle.wait_timeout(WITHIN).await.unwrap(), 2, "by its second epoch");
    assert_eq!(past(&direct, id).await, [(OutcomeKind::Crashed, 1, 1)]);
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.succeeded, report.stale, report.unsettled, report.stuck), (1, 0, 0, 0));
    leader.stop();
    leader.join().await.unwrap();
}
