//! What a transaction is spared, and what it is told.

use std::collections::BTreeMap;

use taskq::prelude::*;
use taskq::store::StoreError;
use taskq::{EnqueueError, JobId, JsonError, Status};

use super::{OrderPaid, Scene};

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(actor = "odd")]
struct Odd(BTreeMap<Vec<u8>, u8>);

#[tokio::test]
async fn what_is_out_of_bounds_is_refused_before_the_transaction_hears_of_it() {
    let scene = Scene::new().await;
    let mut own = scene.database.connect().await.unwrap();
    let mut tx = own.transaction().await.unwrap();
    let job = || scene.taskq.enqueue(&OrderPaid { order: 1 });
    let refused = [
        job().max_attempts(0).in_tx(&mut tx).await.unwrap_err(),
        job().tag("a\0b").in_tx(&mut tx).await.unwrap_err(),
        job().queue("").in_tx(&mut tx).await.unwrap_err(),
        job().metadata(&[1]).in_tx(&mut tx).await.unwrap_err(),
    ];
    for error in &refused {
        assert!(error.is_invalid_input(), "{error:?}");
    }
    let payload = scene.taskq.enqueue(&Odd(BTreeMap::from([(vec![1], 1)]))).in_tx(&mut tx).await.unwrap_err();
    assert!(matches!(payload, EnqueueError::Payload(JsonError::Syntax(_))), "no key of JSON: {payload:?}");
    let many = [job(), job().max_attempts(0)];
    let element = scene.taskq.enqueue_all(many).in_tx(&mut tx).await.unwrap_err();
    assert!(matches!(element, EnqueueError::Element { index: 1, .. }), "{element:?}");
    let ids = (0..10_001).map(|_| JobId::new());
    let ids = scene.taskq.cancel(ids, None).in_tx(&mut tx).await.unwrap_err();
    assert!(matches!(&ids, StoreError::Invalid { message, .. } if message.contains("split")), "{ids:?}");

    let kept = job().in_tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(kept.status().await.unwrap(), Status::Pending, "the transaction was usable to the end");
}

#[tokio::test]
async fn an_aborted_transaction_says_what_to_do() {
    let scene = Scene::new().await;
    let mut own = scene.database.connect().await.unwrap();
    let mut tx = own.transaction().await.unwrap();
    tx.execute("INSERT INTO public.orders VALUES (1), (1)", &[]).await.unwrap_err();
    let error = scene.taskq.enqueue(&OrderPaid { order: 1 }).in_tx(&mut tx).await.unwrap_err();
    assert!(matches!(error, EnqueueError::Store(StoreError::Aborted)), "{error:?}");
    assert!(error.to_string().contains("roll it back"), "{error}");
    let error = scene.taskq.retry([JobId::new()]).in_tx(&mut tx).await.unwrap_err();
    assert!(matches!(error, StoreError::Aborted), "{error:?}");
    tx.rollback().await.unwrap();
    assert_eq!(scene.written().await, (0, vec![]));
}

#[tokio::test]
async fn the_memory_store_takes_part_in_no_transaction() {
    let scene = Scene::new().await;
    let mut own = scene.database.connect().await.unwrap();
    let mut tx = own.transaction().await.unwrap();
    let memory = TaskQ::in_memory();
    let error = memory.enqueue(&OrderPaid { order: 1 }).in_tx(&mut tx).await.unwrap_err();
    assert!(matches!(error, EnqueueError::Store(StoreError::NoTransaction)), "{error:?}");
    assert!(error.to_string().contains("connect to a database"), "{error}");
    let error = memory.cancel([JobId::new()], None).in_tx(&mut tx).await.unwrap_err();
    assert!(matches!(error, StoreError::NoTransaction), "{error:?}");
    let error = memory.enqueue(&OrderPaid { order: 1 }).statement().unwrap_err();
    assert!(matches!(error, EnqueueError::Store(StoreError::NoTransaction)), "{error:?}");
}

#[tokio::test]
async fn a_conflict_keeps_its_sqlstate() {
    let scene = Scene::new().await;
    let handle = scene.taskq.enqueue(&OrderPaid { order: 1 }).await.unwrap();
    let mut own = scene.database.connect().await.unwrap();
    own.batch_execute("SET default_transaction_isolation = 'repeatable read'").await.unwrap();
    let mut tx = own.transaction().await.unwrap();
    tx.query_one("SELECT count(*) FROM public.orders", &[]).await.unwrap();
    handle.cancel().await.unwrap();
    let error = scene.taskq.cancel([handle.id()], None).in_tx(&mut tx).await.unwrap_err();
    assert_eq!(error.sqlstate(), Some("40001"), "{error:?}");
}

#[tokio::test]
async fn a_transaction_that_only_reads_says_so() {
    let scene = Scene::new().await;
    let mut own = scene.database.connect().await.unwrap();
    let mut tx = own.build_transaction().read_only(true).start().await.unwrap();
    let error = scene.taskq.enqueue(&OrderPaid { order: 1 }).in_tx(&mut tx).await.unwrap_err();
    let EnqueueError::Store(error) = error else { panic!("{error:?}") };
    assert_eq!(error.sqlstate(), Some("25006"), "{error:?}");
}

/// A search path of the caller's that has decoys of what the statements name.
#[tokio::test]
async fn the_callers_search_path_changes_nothing() {
    let scene = Scene::new().await;
    let decoys = "CREATE SCHEMA decoy;
        CREATE FUNCTION decoy.json_agg(json) RETURNS json LANGUAGE sql AS $$ SELECT NULL::json $$;
        CREATE FUNCTION decoy.jsonb_to_record(jsonb) RETURNS record LANGUAGE sql AS $$ SELECT NULL::record $$;
        CREATE DOMAIN decoy.text AS pg_catalog.text CHECK (false);
        CREATE DOMAIN decoy.jsonb AS pg_catalog.jsonb CHECK (false);
        CREATE DOMAIN decoy.uuid AS pg_catalog.uuid CHECK (false);
        CREATE TABLE decoy.jobs (id int);";
    scene.admin.batch_execute(decoys).await.unwrap();
    let mut own = scene.database.connect().await.unwrap();
    own.batch_execute("SET search_path = decoy, pg_catalog").await.unwrap();
    let mut tx = own.transaction().await.unwrap();
    let handle = scene.taskq.enqueue(&OrderPaid { order: 1 }).in_tx(&mut tx).await.unwrap();
    scene.taskq.enqueue(&OrderPaid { order: 2 }).tag("a document").in_tx(&mut tx).await.unwrap();
    scene.taskq.cancel([handle.id()], None).in_tx(&mut tx).await.unwrap();
    scene.taskq.retry([handle.id()]).in_tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(handle.status().await.unwrap(), Status::Pending);
}
