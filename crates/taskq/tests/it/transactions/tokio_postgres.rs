//! Transactions of `tokio-postgres`, and statements for drivers that taskq does not know.

use taskq::prelude::*;
use taskq::store::{CancelOutcome, RetryOutcome, Wake, Wakes};
use taskq::{EnqueueError, EnqueueOutcome, JobId, Notify, OnFinished, Status};
use taskq_testkit::Proxy;

use super::{OrderPaid, Scene, WITHIN};

const ORDER: &str = "INSERT INTO public.orders VALUES ($1)";

#[tokio::test]
async fn a_job_is_there_with_the_commit_of_its_transaction_and_not_without() {
    let scene = Scene::new().await;
    let mut own = scene.database.connect().await.unwrap();
    let tx = own.transaction().await.unwrap();
    tx.execute(ORDER, &[&1_i64]).await.unwrap();
    tx.rollback().await.unwrap();

    let mut tx = own.transaction().await.unwrap();
    tx.execute(ORDER, &[&2_i64]).await.unwrap();
    let gone = scene.taskq.enqueue(&OrderPaid { order: 2 }).in_tx(&mut tx).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(scene.written().await, (0, vec![]));

    let mut tx = own.transaction().await.unwrap();
    tx.execute(ORDER, &[&3_i64]).await.unwrap();
    let kept = scene.taskq.enqueue(&OrderPaid { order: 3 }).priority(7).in_tx(&mut tx).await.unwrap();
    assert_eq!(kept.outcome(), Some(EnqueueOutcome::Created));
    assert_eq!(scene.written().await, (0, vec![]), "nobody sees it before the commit");
    tx.commit().await.unwrap();
    assert_eq!(scene.written().await, (1, vec![(kept.id().0, "pending".to_owned())]));
    assert_eq!(scene.taskq.store().job(kept.id()).await.unwrap().unwrap().priority, 7);
    let absent = gone.wait_timeout(WITHIN).await.unwrap_err();
    assert!(matches!(absent, taskq::WaitError::Absent(taskq::Absence::NeverExisted)), "{absent:?}");
}

/// Waits for a wake-up of a queue and says which other queues were told of before.
async fn told_of(wakes: &mut Wakes, queue: &str) -> Vec<String> {
    let mut before = Vec::new();
    loop {
        let wake = tokio::time::timeout(WITHIN, wakes.next()).await.expect("a wake-up").unwrap();
        match wake {
            Wake::Ready(name) if name.as_str() == queue => return before,
            Wake::Ready(name) => before.push(name.as_str().to_owned()),
            _ => {}
        }
    }
}

#[tokio::test]
async fn workers_are_told_by_the_commit_or_by_the_token() {
    let scene = Scene::new().await;
    let mut wakes = scene.taskq.store().wakes();
    // What is notified before the listener has connected is lost.
    assert_eq!(tokio::time::timeout(WITHIN, wakes.next()).await.unwrap(), Some(Wake::Everything));
    let mut own = scene.database.connect().await.unwrap();
    let mut tx = own.transaction().await.unwrap();
    let handle = scene.taskq.enqueue(&OrderPaid { order: 1 }).in_tx(&mut tx).await.unwrap();
    assert!(handle.wake_token().is_empty(), "the commit tells");
    tx.commit().await.unwrap();
    assert_eq!(told_of(&mut wakes, "orders").await, [""; 0]);

    let mut tx = own.transaction().await.unwrap();
    let quiet = |order| scene.taskq.enqueue(&OrderPaid { order }).notify(Notify::None);
    let first = quiet(2).in_tx(&mut tx).await.unwrap();
    let second = quiet(3).queue("later").in_tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    scene.taskq.enqueue(&OrderPaid { order: 4 }).queue("other").await.unwrap();
    assert_eq!(told_of(&mut wakes, "other").await, [""; 0], "nobody was told of the quiet ones");
    let token = first.wake_token().merge(second.wake_token());
    assert!(!token.is_empty());
    token.fire().await.unwrap();
    assert_eq!(told_of(&mut wakes, "orders").await, ["later"]);
}

#[tokio::test]
async fn an_enqueue_adds_one_round_trip_to_its_transaction() {
    let scene = Scene::new().await;
    let proxy = Proxy::start(scene.database.dsn()).unwrap();
    let mut own = connect(proxy.dsn()).await;
    let mut counts = Vec::new();
    for enqueues in 0..3 {
        let before = proxy.round_trips();
        let mut tx = own.transaction().await.unwrap();
        for order in 0..enqueues {
            scene.taskq.enqueue(&OrderPaid { order }).in_tx(&mut tx).await.unwrap();
        }
        tx.commit().await.unwrap();
        counts.push(proxy.round_trips() - before);
    }
    assert_eq!(counts, [2, 3, 4], "begin, commit and one for each enqueue, the first one included");
    let before = proxy.round_trips();
    let many = (0..1_000).map(|order| OrderPaid { order });
    let mut tx = own.transaction().await.unwrap();
    let handles = scene.taskq.enqueue_many::<OrderPaid>(many).in_tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((handles.len(), proxy.round_trips() - before), (1_000, 3));
}

async fn connect(dsn: &str) -> ::tokio_postgres::Client {
    let (client, connection) = ::tokio_postgres::connect(dsn, ::tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn jobs_are_cancelled_and_retried_in_a_transaction() {
    let scene = Scene::new().await;
    let handle = scene.taskq.enqueue(&OrderPaid { order: 1 }).await.unwrap();
    let nobody = JobId::new();
    let mut own = scene.database.connect().await.unwrap();

    let mut tx = own.transaction().await.unwrap();
    let ids = [nobody, handle.id()];
    let cancelled =
        scene.taskq.cancel(ids, Some("it's \\ \"over\"".to_owned())).in_tx(&mut tx).await.unwrap();
    let outcomes: Vec<_> =
        cancelled.iter().map(|answer| (answer.id, answer.outcome, answer.status)).collect();
    let expected = [
        (nobody, CancelOutcome::NotFound, None),
        (handle.id(), CancelOutcome::Cancelled, Some(Status::Cancelled)),
    ];
    assert_eq!(outcomes, expected);
    tx.rollback().await.unwrap();
    assert_eq!(handle.status().await.unwrap(), Status::Pending, "rolled back");

    let mut tx = own.transaction().await.unwrap();
    scene.taskq.cancel(ids, Some("it's \\ \"over\"".to_owned())).in_tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    let record = scene.taskq.store().job(handle.id()).await.unwrap().unwrap();
    assert_eq!(
        (record.status, record.error.unwrap().message.as_str()),
        (Status::Cancelled, "it's \\ \"over\"")
    );

    let mut tx = own.transaction().await.unwrap();
    let retried = scene.taskq.retry([handle.id()]).in_tx(&mut tx).await.unwrap();
    assert_eq!(retried[0].outcome, RetryOutcome::Retried);
    tx.rollback().await.unwrap();
    assert_eq!(handle.status().await.unwrap(), Status::Cancelled, "rolled back");
    let mut tx = own.transaction().await.unwrap();
    scene.taskq.retry([handle.id()]).in_tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(handle.status().await.unwrap(), Status::Pending);
}

#[tokio::test]
async fn a_key_means_the_same_in_a_transaction() {
    let scene = Scene::new().await;
    let mut own = scene.database.connect().await.unwrap();
    let keyed = || scene.taskq.enqueue(&OrderPaid { order: 1 }).idempotency_key("order-1");
    let mut tx = own.transaction().await.unwrap();
    let first = keyed().in_tx(&mut tx).await.unwrap();
    let again = keyed().in_tx(&mut tx).await.unwrap();
    assert_eq!(
        (first.outcome(), again.outcome()),
        (Some(EnqueueOutcome::Created), Some(EnqueueOutcome::Existing))
    );
    assert_eq!(again.id(), first.id());
    tx.commit().await.unwrap();

    first.cancel().await.unwrap();
    let mut tx = own.transaction().await.unwrap();
    let finished = keyed().in_tx(&mut tx).await.unwrap_err();
    assert!(matches!(finished, EnqueueError::AlreadyFinished { id, .. } if id == first.id()), "{finished:?}");
    let run_again = keyed().on_finished(OnFinished::RunAgain).in_tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(run_again.outcome(), Some(EnqueueOutcome::Replaced));
}

#[tokio::test]
async fn a_statement_does_the_same_by_hand() {
    let scene = Scene::new().await;
    let statement = scene.taskq.enqueue(&OrderPaid { order: 7 }).statement().unwrap();
    let (sql, json) = (statement.sql().to_owned(), statement.json().to_owned());
    let other = scene.taskq.enqueue(&OrderPaid { order: 8 }).priority(3).statement().unwrap();
    assert_eq!(other.sql(), sql, "one statement to prepare");
    let answer: String = scene.admin.query_one(&sql, &[&json]).await.unwrap().get(0);
    let handle = statement.answered(&answer).unwrap();
    assert_eq!(handle.status().await.unwrap(), Status::Pending);

    let nonsense =
        scene.taskq.enqueue(&OrderPaid { order: 9 }).statement().unwrap().answered("[]").unwrap_err();
    assert!(matches!(nonsense, EnqueueError::Store(taskq::store::StoreError::Answer { .. })), "{nonsense:?}");

    let statement = scene.taskq.cancel([handle.id()], None).statement().unwrap();
    let answer: String = scene.admin.query_one(statement.sql(), &[&statement.json()]).await.unwrap().get(0);
    assert_eq!(statement.answered(&answer).unwrap()[0].outcome, CancelOutcome::Cancelled);
    let statement = scene.taskq.retry([handle.id()]).statement().unwrap();
    let answer: String = scene.admin.query_one(statement.sql(), &[&statement.json()]).await.unwrap().get(0);
    assert_eq!(statement.answered(&answer).unwrap()[0].outcome, RetryOutcome::Retried);
}

#[tokio::test]
async fn a_transaction_of_any_level_carries_an_enqueue() {
    let scene = Scene::new().await;
    let mut own = scene.database.connect().await.unwrap();
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        own.batch_execute(&format!("SET default_transaction_isolation = '{level}'")).await.unwrap();
        let mut tx = own.transaction().await.unwrap();
        let handle = scene.taskq.enqueue(&OrderPaid { order: 1 }).in_tx(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(handle.status().await.unwrap(), Status::Pending, "{level}");
    }
}
