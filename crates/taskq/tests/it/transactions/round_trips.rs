//! What each call adds to its transaction: one round trip, at its first use on a connection and at every later one.
//! Counted through a proxy, which sees the server's answers that it is ready for more.

use std::sync::Arc;

use ::sqlx::Connection;
use taskq::prelude::*;
use taskq_testkit::Proxy;

use super::{Scene, WITHIN};

/// A job whose handler says what `complete_in` added to a transaction: the first time on a connection, and the second.
#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(actor = "count", queue = "counts", output = [u64; 2])]
struct Count {
    driver: Driver,
}

#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
enum Driver {
    TokioPostgres,
    Sqlx,
}

/// Runs a call twice on one connection, each time in a transaction of its own, and evaluates to what it added to each.
macro_rules! added {
    ($proxy:expr, $tx:ident in $begin:expr => $call:expr) => {{
        let mut added = [0; 2];
        for of_one in &mut added {
            let mut $tx = $begin.await.unwrap();
            let before = $proxy.round_trips();
            $call.await.unwrap();
            *of_one = $proxy.round_trips() - before;
            $tx.rollback().await.unwrap();
        }
        added
    }};
}

async fn connect(proxy: &Proxy) -> ::tokio_postgres::Client {
    let (client, connection) = ::tokio_postgres::connect(proxy.dsn(), ::tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn a_call_in_a_transaction_of_tokio_postgres_is_one_round_trip_each_time() {
    let scene = Scene::new().await;
    let (taskq, proxy) = (&scene.taskq, Proxy::start(scene.database.dsn()).unwrap());
    let job = Count { driver: Driver::TokioPostgres };
    let id = taskq.enqueue(&job).await.unwrap().id();
    // A connection for each call: nothing has been made ready by another one.
    let mut own = connect(&proxy).await;
    let enqueue = added!(proxy, tx in own.transaction() => taskq.enqueue(&job).in_tx(&mut tx));
    let mut own = connect(&proxy).await;
    let tagged = added!(proxy, tx in own.transaction() => taskq.enqueue(&job).tag("t").in_tx(&mut tx));
    let mut own = connect(&proxy).await;
    let many =
        added!(proxy, tx in own.transaction() => taskq.enqueue_many::<Count>([&job, &job]).in_tx(&mut tx));
    let mut own = connect(&proxy).await;
    let cancel = added!(proxy, tx in own.transaction() => taskq.cancel([id], None).in_tx(&mut tx));
    let mut own = connect(&proxy).await;
    let retry = added!(proxy, tx in own.transaction() => taskq.retry([id]).in_tx(&mut tx));
    assert_eq!([enqueue, tagged, many, cancel, retry], [[1, 1]; 5], "enqueue, enqueue_many, cancel, retry");
}

#[tokio::test]
async fn a_call_in_a_transaction_of_sqlx_is_one_round_trip_each_time() {
    let scene = Scene::new().await;
    let (taskq, proxy) = (&scene.taskq, Proxy::start(scene.database.dsn()).unwrap());
    let connect = async || ::sqlx::PgConnection::connect(proxy.dsn()).await.unwrap();
    let job = Count { driver: Driver::Sqlx };
    let id = taskq.enqueue(&job).await.unwrap().id();
    let mut own = connect().await;
    let enqueue = added!(proxy, tx in own.begin() => taskq.enqueue(&job).in_tx(&mut tx));
    let mut own = connect().await;
    let tagged = added!(proxy, tx in own.begin() => taskq.enqueue(&job).tag("t").in_tx(&mut tx));
    let mut own = connect().await;
    let many = added!(proxy, tx in own.begin() => taskq.enqueue_many::<Count>([&job, &job]).in_tx(&mut tx));
    let mut own = connect().await;
    let cancel = added!(proxy, tx in own.begin() => taskq.cancel([id], None).in_tx(&mut tx));
    let mut own = connect().await;
    let retry = added!(proxy, tx in own.begin() => taskq.retry([id]).in_tx(&mut tx));
    assert_eq!([enqueue, tagged, many, cancel, retry], [[1, 1]; 5], "enqueue, enqueue_many, cancel, retry");
}

#[tokio::test]
async fn a_success_in_a_transaction_is_one_round_trip_each_time_with_either_driver() {
    let scene = Scene::new().await;
    let proxy = Arc::new(Proxy::start(scene.database.dsn()).unwrap());
    let handler = {
        let proxy = Arc::clone(&proxy);
        move |job: Count, ctx: Context| {
            let proxy = Arc::clone(&proxy);
            async move {
                Ok(match job.driver {
                    Driver::TokioPostgres => {
                        let mut own = connect(&proxy).await;
                        added!(proxy, tx in own.transaction() => ctx.complete_in(&mut tx, &[0, 0]))
                    }
                    Driver::Sqlx => {
                        let mut own = ::sqlx::PgConnection::connect(proxy.dsn()).await?;
                        added!(proxy, tx in own.begin() => ctx.complete_in(&mut tx, &[0, 0]))
                    }
                })
            }
        }
    };
    // One slot: what another attempt sent would be counted as well.
    let worker = Worker::builder(&scene.taskq).queue("counts", 1).handle::<Count>(handler).build().unwrap();
    let worker = worker.start();
    for driver in [Driver::TokioPostgres, Driver::Sqlx] {
        let job = scene.taskq.enqueue(&Count { driver }).await.unwrap();
        assert_eq!(job.wait_timeout(WITHIN).await.unwrap(), [1, 1], "{driver:?}");
    }
    worker.stop();
    worker.join().await.unwrap();
}
