//! Transactions of `sqlx`.

use ::sqlx::postgres::PgPoolOptions;
use ::sqlx::{Connection, PgConnection, PgPool};
use taskq::prelude::*;
use taskq::store::{CancelOutcome, RetryOutcome, StoreError};
use taskq::{EnqueueError, EnqueueOutcome, Status};
use taskq_testkit::{Proxy, wait_until};

use super::{OrderPaid, Scene, WITHIN};

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(actor = "note")]
struct Note(String);

async fn pool(scene: &Scene) -> PgPool {
    PgPoolOptions::new().max_connections(1).connect(scene.database.dsn()).await.unwrap()
}

async fn order(tx: &mut PgConnection, order: i64) {
    ::sqlx::query("INSERT INTO public.orders VALUES ($1)").bind(order).execute(tx).await.unwrap();
}

#[tokio::test]
async fn a_job_is_there_with_the_commit_of_its_transaction_and_not_without() {
    let scene = Scene::new().await;
    let pool = pool(&scene).await;
    let mut tx = pool.begin().await.unwrap();
    order(&mut tx, 1).await;
    scene.taskq.enqueue(&OrderPaid { order: 1 }).in_tx(&mut tx).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    order(&mut tx, 2).await;
    scene.taskq.enqueue(&OrderPaid { order: 2 }).in_tx(&mut tx).await.unwrap();
    drop(tx);
    let mut tx = pool.begin().await.unwrap();
    order(&mut tx, 3).await;
    let kept = scene.taskq.enqueue(&OrderPaid { order: 3 }).in_tx(&mut tx).await.unwrap();
    assert_eq!(kept.outcome(), Some(EnqueueOutcome::Created));
    assert_eq!(scene.written().await, (0, vec![]), "nobody sees it before the commit");
    tx.commit().await.unwrap();
    assert_eq!(scene.written().await, (1, vec![(kept.id().0, "pending".to_owned())]));

    let mut tx = pool.begin().await.unwrap();
    let cancelled =
        scene.taskq.cancel([kept.id()], Some("it's over".to_owned())).in_tx(&mut tx).await.unwrap();
    assert_eq!(cancelled[0].outcome, CancelOutcome::Cancelled);
    let retried = scene.taskq.retry([kept.id()]).in_tx(&mut tx).await.unwrap();
    assert_eq!(retried[0].outcome, RetryOutcome::Retried);
    tx.commit().await.unwrap();
    assert_eq!(kept.status().await.unwrap(), Status::Pending);

    // A connection in no transaction commits by itself.
    let mut own = pool.acquire().await.unwrap();
    let alone = scene.taskq.enqueue(&OrderPaid { order: 4 }).in_tx(&mut own).await.unwrap();
    assert_eq!(alone.status().await.unwrap(), Status::Pending);
}

#[tokio::test]
async fn any_text_arrives_as_it_is_whatever_the_session_says_of_backslashes() {
    let scene = Scene::new().await;
    let mut own = PgConnection::connect(scene.database.dsn()).await.unwrap();
    let text = "it's \\ and \\' and \" and $1 and $$ and \\u0041 and é and 🦀 and \n and {schema}";
    for setting in ["on", "off"] {
        let setting = format!("SET standard_conforming_strings = {setting}");
        ::sqlx::raw_sql(::sqlx::AssertSqlSafe(setting)).execute(&mut own).await.unwrap();
        let mut tx = own.begin().await.unwrap();
        // As columns, and as a document.
        let plain = scene.taskq.enqueue(&Note(text.to_owned())).in_tx(&mut tx).await.unwrap();
        let tagged =
            scene.taskq.enqueue(&Note(text.to_owned())).tag("it's \\ a tag").in_tx(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        for handle in [plain, tagged] {
            let payload = scene.taskq.store().job(handle.id()).await.unwrap().unwrap().payload;
            assert_eq!(payload.parse::<Note>().unwrap().0, text);
        }
    }
}

#[tokio::test]
async fn an_enqueue_adds_one_round_trip_to_its_transaction() {
    let scene = Scene::new().await;
    let proxy = Proxy::start(scene.database.dsn()).unwrap();
    let mut own = PgConnection::connect(proxy.dsn()).await.unwrap();
    let mut counts = Vec::new();
    for enqueues in 0..3 {
        let before = proxy.round_trips();
        let mut tx = own.begin().await.unwrap();
        for order in 0..enqueues {
            scene.taskq.enqueue(&OrderPaid { order }).in_tx(&mut tx).await.unwrap();
        }
        tx.commit().await.unwrap();
        counts.push(proxy.round_trips() - before);
    }
    assert_eq!(counts, [2, 3, 4], "begin, commit and one for each enqueue, the first one included");
}

#[tokio::test]
async fn errors_have_the_types_that_they_have_with_every_driver() {
    let scene = Scene::new().await;
    let proxy = Proxy::start(scene.database.dsn()).unwrap();
    let mut own = PgConnection::connect(proxy.dsn()).await.unwrap();
    let mut tx = own.begin().await.unwrap();
    let refused =
        scene.taskq.enqueue(&OrderPaid { order: 1 }).max_attempts(0).in_tx(&mut tx).await.unwrap_err();
    assert!(refused.is_invalid_input(), "{refused:?}");
    // The server's own check: a deadline that has passed.
    let past = "2001-01-01T00:00:00Z".parse().unwrap();
    let refused =
        scene.taskq.enqueue(&OrderPaid { order: 1 }).deadline(past).in_tx(&mut tx).await.unwrap_err();
    assert!(
        matches!(&refused, EnqueueError::Store(StoreError::Invalid { index: Some(0), .. })),
        "{refused:?}"
    );
    let aborted = scene.taskq.enqueue(&OrderPaid { order: 1 }).in_tx(&mut tx).await.unwrap_err();
    assert!(matches!(aborted, EnqueueError::Store(StoreError::Aborted)), "{aborted:?}");
    tx.rollback().await.unwrap();

    let mut tx = own.begin().await.unwrap();
    proxy.cut();
    wait_until("the cut", WITHIN, async || proxy.connections() == 0).await;
    let lost = scene.taskq.enqueue(&OrderPaid { order: 1 }).in_tx(&mut tx).await.unwrap_err();
    assert!(matches!(lost, EnqueueError::Store(StoreError::Unavailable { .. })), "{lost:?}");
}
