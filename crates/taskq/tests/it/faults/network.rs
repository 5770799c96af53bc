//! The network swallows everything.

use std::time::{Duration, Instant};

use taskq::prelude::*;
use taskq::{OutcomeKind, RetryPolicy};
use taskq_testkit::{Direction, Proxy, wait_until};
use tokio::sync::mpsc;

use super::{Echo, WITHIN, leading, past};
use crate::manual::database;

const LEASE: Duration = Duration::from_secs(2);

/// Tells when the attempt's future begins, and when it is gone.
struct Alive(mpsc::UnboundedSender<Instant>);

impl Alive {
    fn begin(tell: mpsc::UnboundedSender<Instant>) -> Self {
        tell.send(Instant::now()).unwrap();
        Self(tell)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        let _ = self.0.send(Instant::now());
    }
}

#[tokio::test]
async fn a_worker_that_is_cut_off_has_ended_its_attempts_before_its_lease_ends() {
    let database = database().await;
    let leader = leading(database.dsn()).await;
    let proxy = Proxy::start(database.dsn()).unwrap();
    let taskq = TaskQ::connect(proxy.dsn()).await.unwrap();
    let direct = TaskQ::connect(database.dsn()).await.unwrap();
    let admin = database.connect().await.unwrap();
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
    let ended = tokio::time::timeout(WITHIN, told.recv()).await.expect("the attempt ends").unwrap();
    let asked = Instant::now();
    // The row of the worker stays when it is lost.
    let left = "SELECT extract(epoch FROM lease_expires_at - clock_timestamp())::double precision
                FROM taskq.workers WHERE actors = '{echo}'";
    let left: f64 = admin.query_one(left, &[]).await.unwrap().get(0);
    let left = left + asked.duration_since(ended).as_secs_f64();
    assert!(left > 0.0, "{left} s of the lease were left");

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
