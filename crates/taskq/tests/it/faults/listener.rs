//! The connection that listens for wake-ups ends.

use taskq::prelude::*;
use taskq_testkit::wait_until;

use super::{Echo, WITHIN, echo};
use crate::manual::database;

#[tokio::test]
async fn the_next_enqueue_is_picked_up_although_the_listener_has_ended() {
    let database = database().await;
    let admin = database.connect().await.unwrap();
    let taskq = TaskQ::connect(database.dsn()).await.unwrap();
    let worker = Worker::builder(&taskq).queue("default", 2).handle::<Echo>(echo).build().unwrap().start();
    // It has no listener of its own.
    let elsewhere = TaskQ::connect(database.dsn()).await.unwrap();
    let warm_up = elsewhere.enqueue(&Echo).await.unwrap();
    warm_up.wait_timeout(WITHIN).await.unwrap();

    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name LIKE '%:claim'";
    for _ in 0..3 {
        wait_until("the listener is there", WITHIN, async || {
            admin.query_one(end, &[]).await.unwrap().get::<_, i64>(0) == 1
        })
        .await;
        let handle = elsewhere.enqueue(&Echo).await.unwrap();
        assert_eq!(handle.wait_timeout(WITHIN).await.unwrap(), 1);
    }
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.succeeded, report.stale, report.exit_code()), (4, 0, 0));
}
