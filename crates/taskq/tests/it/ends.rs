//! A hook of ends on a server, where others end jobs too.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskq::prelude::*;
use taskq::store::{Setting, StoreError};
use taskq::{EventLevel, JobEnd, JobId, RunError, Status};
use taskq_testkit::wait_until;
use uuid::Uuid;

use crate::manual::database;

/// How long an end may go untold: any transaction of the whole server holds the feed back, other tests' included.
const HELD_BACK: Duration = Duration::from_mins(2);

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "works", queue = "here", keep = none)]
struct Works;

type Told = Arc<Mutex<Vec<(JobId, Status, Option<String>)>>>;

fn worker(taskq: &TaskQ, told: &Told) -> Worker {
    let into = Arc::clone(told);
    let hook = move |end: JobEnd| {
        let into = Arc::clone(&into);
        async move {
            let actor = end.record().await?.map(|job| job.actor.to_string());
            into.lock().unwrap().push((end.job, end.status, actor));
            Ok(())
        }
    };
    let builder =
        Worker::builder(taskq).queue("here", 2).handle::<Works>(async |_: Works, _: Context| Ok(()));
    builder.on_end("audit", hook).build().unwrap()
}

#[tokio::test]
async fn what_psql_and_others_end_is_told_as_well() {
    let database = database().await;
    let taskq = TaskQ::connect(database.dsn()).await.unwrap();
    let told = Told::default();
    let refused = worker(&taskq, &told).start().join().await.unwrap_err();
    assert!(
        matches!(&refused, RunError::Refused(StoreError::Invalid { message, .. }) if message.contains("event_level"))
    );

    taskq.set(Setting::EventLevel(EventLevel::Ends)).await.unwrap();
    let first = worker(&taskq, &told).start();
    let admin = database.connect().await.unwrap();
    let held = "SELECT count(*) FROM taskq.hooks WHERE holder IS NOT NULL";
    wait_until("the hook is held", HELD_BACK, async || {
        admin.query_one(held, &[]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;

    let own = taskq.enqueue(&Works).await.unwrap().id();
    // Nobody of this crate has a hand in these.
    let by_hand = async |sql: &str| -> JobId { JobId(admin.query_one(sql, &[]).await.unwrap().get(0)) };
    let enqueue =
        "SELECT id FROM taskq.enqueue('{\"actor\": \"by_hand\", \"queue\": \"psql\", \"payload\": 1}')";
    let cancelled = by_hand(enqueue).await;
    admin.execute("SELECT * FROM taskq.cancel(ARRAY[$1::uuid], 'no')", &[&cancelled.0]).await.unwrap();
    let failed = by_hand(enqueue).await;
    let stranger = Uuid::now_v7();
    let work = format!(
        "SELECT taskq.register_worker('{stranger}', ARRAY['psql'], ARRAY['by_hand'], '1 minute', NULL);
        SELECT * FROM taskq.claim(ARRAY['psql'], 1, '{stranger}', '1 minute');
        SELECT * FROM taskq.settle('{stranger}', jsonb_build_array(jsonb_build_object('id', '{failed}', 'epoch', 1,
            'outcome', 'failed', 'final', true, 'error', jsonb_build_object('class', 'c', 'message', 'm'))))"
    );
    admin.batch_execute(&work).await.unwrap();
    let actor = Some("by_hand".to_owned());
    let ended = [
        (own, Status::Succeeded, None),
        (cancelled, Status::Cancelled, actor.clone()),
        (failed, Status::Failed, actor.clone()),
    ];
    let is_told = |ends: &[(JobId, Status, Option<String>)]| {
        let told = told.lock().unwrap();
        ends.iter().all(|end| told.contains(end))
    };
    wait_until("all three are told", HELD_BACK, async || is_told(&ended)).await;

    // While no worker has the hook, its place is kept.
    first.stop();
    first.join().await.unwrap();
    let later = by_hand(enqueue).await;
    admin.execute("SELECT * FROM taskq.cancel(ARRAY[$1::uuid], 'no')", &[&later.0]).await.unwrap();
    let second = worker(&taskq, &told).start();
    wait_until("that is told too", HELD_BACK, async || is_told(&[(later, Status::Cancelled, actor.clone())]))
        .await;
    second.stop();
    second.join().await.unwrap();
    assert_eq!(told.lock().unwrap().len(), 4, "each once");
}
