//! `complete_in`: effects and success together, whatever happens around the commit.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ::sqlx::Connection;
use serde::{Deserialize, Serialize};
use taskq::prelude::*;
use taskq::store::StoreError;
use taskq::{CompleteError, JobId, RetryPolicy, Status, WorkerHandle};
use taskq_testkit::{ChildProcess, wait_until};

use super::{Scene, WITHIN};
use crate::faults::leading;

/// The environment variable that makes a process a worker that dies.
const VARIABLE: &str = "TASKQ_DYING_BOOKKEEPER";
const EFFECT: &str = "INSERT INTO public.orders VALUES ($1)";

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, Job)]
#[job(actor = "book", queue = "books", output = i64, retry(fixed = "0s"))]
struct Book {
    order: i64,
    driver: Driver,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
enum Driver {
    TokioPostgres,
    Sqlx,
}

/// What becomes of the first attempt.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
enum Fate {
    Nothing,
    /// Its process dies with the transaction open.
    DiesBeforeTheCommit,
    /// Its process dies with the transaction committed and nothing settled.
    DiesAfterTheCommit,
    /// It rolls back and fails.
    RollsBack,
    /// It fails after the commit.
    FailsAfterTheCommit,
    /// Its claim is lost before it completes.
    LosesItsClaim,
}

/// Writes the order and its own success in one transaction, unless it meets its fate. The output is the epoch.
async fn book(dsn: Arc<str>, job: Book, ctx: Context) -> JobResult<i64> {
    let epoch = ctx.epoch().0;
    let fate = if epoch == 1 { job.fate } else { Fate::Nothing };
    if fate == Fate::LosesItsClaim {
        let admin = connect(&dsn).await?;
        let back = "UPDATE taskq.jobs SET status = 'pending', locked_by_worker = NULL WHERE id = $1";
        admin.execute(back, &[&ctx.id().0]).await?;
    }
    match job.driver {
        Driver::TokioPostgres => {
            let mut own = connect(&dsn).await?;
            let mut tx = own.transaction().await?;
            tx.execute(EFFECT, &[&job.order]).await?;
            ctx.complete_in(&mut tx, &epoch).await?;
            match fate {
                Fate::DiesBeforeTheCommit => std::process::abort(),
                Fate::RollsBack => tx.rollback().await?,
                _ => tx.commit().await?,
            }
        }
        Driver::Sqlx => {
            let mut own = ::sqlx::PgConnection::connect(&dsn).await?;
            let mut tx = own.begin().await?;
            ::sqlx::query(EFFECT).bind(job.order).execute(&mut *tx).await?;
            ctx.complete_in(&mut tx, &epoch).await?;
            match fate {
                Fate::DiesBeforeTheCommit => std::process::abort(),
                Fate::RollsBack => tx.rollback().await?,
                _ => tx.commit().await?,
            }
        }
    }
    match fate {
        Fate::DiesAfterTheCommit => std::process::abort(),
        Fate::RollsBack | Fate::FailsAfterTheCommit => Err(JobError::from("it failed")),
        _ => Ok(epoch),
    }
}

async fn connect(dsn: &str) -> Result<::tokio_postgres::Client, ::tokio_postgres::Error> {
    let (client, connection) = ::tokio_postgres::connect(dsn, ::tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn bookkeeper(dsn: &str, queue: &str) -> WorkerHandle {
    let taskq = TaskQ::connect(dsn).await.unwrap();
    let dsn: Arc<str> = dsn.into();
    let handler = move |job: Book, ctx: Context| book(Arc::clone(&dsn), job, ctx);
    let builder = Worker::builder(&taskq).queue("books", 4).queue(queue, 4).handle::<Book>(handler);
    builder.build().unwrap().start()
}

/// Not a test: what the processes run.
#[test]
#[ignore = "runs as the child process of other tests"]
fn dying_bookkeeper() {
    let Ok(queue_and_dsn) = std::env::var(VARIABLE) else { return };
    let (queue, dsn) = queue_and_dsn.split_once(' ').unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        bookkeeper(dsn, queue).await.join().await.unwrap();
    });
}

fn spawn(dsn: &str, queue: &str) -> ChildProcess {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let (_, module) = module_path!().split_once("::").unwrap();
    command.args(["--exact", &format!("{module}::dying_bookkeeper"), "--ignored", "--nocapture"]);
    ChildProcess::spawn(command.env(VARIABLE, format!("{queue} {dsn}"))).unwrap()
}

impl Scene {
    async fn book(&self, order: i64, driver: Driver, fate: Fate) -> JobHandle<Book> {
        self.taskq.enqueue(&Book { order, driver, fate }).await.unwrap()
    }

    async fn orders(&self) -> Vec<i64> {
        let rows = self.admin.query("SELECT id FROM public.orders ORDER BY id", &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    async fn attempts(&self, id: JobId) -> usize {
        self.taskq.store().attempts(id).await.unwrap().len()
    }
}

/// Shows that of an attempt whose process is killed around its commit, the effect and the success are both there or
/// neither: with either driver.
#[tokio::test]
async fn a_process_that_dies_around_its_commit_leaves_effect_and_success_or_neither() {
    let scene = Scene::new().await;
    let dsn = scene.database.dsn();
    // So that none of those that die leads.
    let leader = leading(dsn).await;
    let cases = [
        (1, Driver::TokioPostgres, Fate::DiesBeforeTheCommit),
        (2, Driver::Sqlx, Fate::DiesBeforeTheCommit),
        (3, Driver::TokioPostgres, Fate::DiesAfterTheCommit),
        (4, Driver::Sqlx, Fate::DiesAfterTheCommit),
    ];
    let mut jobs = Vec::new();
    for (order, driver, fate) in cases {
        // One process a job, each on a queue of its own.
        let queue = format!("books-{order}");
        let job = scene.taskq.enqueue(&Book { order, driver, fate }).queue(&queue).await.unwrap();
        jobs.push((job, fate, spawn(dsn, &queue)));
    }
    for (job, fate, process) in &mut jobs {
        let ended = process.wait(WITHIN).await;
        assert_eq!(ended.code(), None, "by a signal: {:?}", process.stderr());
        let status = job.status().await.unwrap();
        assert_eq!(status == Status::Succeeded, *fate == Fate::DiesAfterTheCommit, "{fate:?}: {status}");
    }
    assert_eq!(scene.orders().await, [3, 4], "as many effects as successes");

    // Nobody needs to wait for the leases of the dead.
    let dead: Vec<i64> = jobs.iter().map(|(.., process)| process.id().into()).collect();
    let end = "UPDATE taskq.workers SET lease_expires_at = clock_timestamp()
        WHERE (info ->> 'pid')::bigint = ANY ($1)";
    assert_eq!(scene.admin.execute(end, &[&dead]).await.unwrap(), 4);
    let workers = [bookkeeper(dsn, "books-1").await, bookkeeper(dsn, "books-2").await];
    for (job, fate, _) in &jobs {
        let epoch = job.wait_timeout(WITHIN).await.unwrap();
        let runs = if *fate == Fate::DiesAfterTheCommit { 1 } else { 2 };
        assert_eq!(
            (epoch, scene.attempts(job.id()).await),
            (runs, usize::try_from(runs - 1).unwrap()),
            "{fate:?}"
        );
    }
    assert_eq!(scene.orders().await, [1, 2, 3, 4], "each effect once");
    for worker in workers.into_iter().chain([leader]) {
        worker.stop();
        assert_eq!(worker.join().await.unwrap().exit_code(), 0);
    }
}

#[tokio::test]
async fn the_worker_settles_as_always_and_meets_what_the_transaction_left() {
    let scene = Scene::new().await;
    let worker = bookkeeper(scene.database.dsn(), "other").await;
    for (order, driver) in [(1, Driver::TokioPostgres), (2, Driver::Sqlx)] {
        let job = scene.book(order, driver, Fate::Nothing).await;
        assert_eq!(job.wait_timeout(WITHIN).await.unwrap(), 1);
    }
    // Rolled back: a running row, whose failure is recorded, and which is tried again.
    let rolled_back = scene.book(3, Driver::TokioPostgres, Fate::RollsBack).await;
    assert_eq!(rolled_back.wait_timeout(WITHIN).await.unwrap(), 2);
    assert_eq!(scene.attempts(rolled_back.id()).await, 1);
    assert_eq!(scene.orders().await, [1, 2, 3]);
    wait_until("all outcomes", WITHIN, async || worker.counts().succeeded == 3).await;
    assert_eq!((worker.counts().failed, worker.counts().stale), (1, 0));

    // Failed after the commit: too late.
    let committed = scene.book(4, Driver::Sqlx, Fate::FailsAfterTheCommit).await;
    assert_eq!(committed.wait_timeout(WITHIN).await.unwrap(), 1);
    wait_until("the late outcome", WITHIN, async || worker.counts().stale == 1).await;
    assert_eq!((scene.orders().await, scene.attempts(committed.id()).await), (vec![1, 2, 3, 4], 0));
    worker.stop();
    let report = worker.join().await.unwrap();
    assert_eq!((report.succeeded, report.failed, report.stale), (3, 1, 1));
}

#[tokio::test]
async fn an_attempt_that_has_lost_its_job_cannot_complete_it() {
    let scene = Scene::new().await;
    let worker = bookkeeper(scene.database.dsn(), "other").await;
    let job = scene.book(1, Driver::TokioPostgres, Fate::LosesItsClaim).await;
    assert_eq!(job.wait_timeout(WITHIN).await.unwrap(), 2, "by another attempt");
    assert_eq!(scene.orders().await, [1], "the first attempt's effect was rolled back");
    worker.stop();
    worker.join().await.unwrap();
}

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "alone", output = String)]
struct Alone;

#[tokio::test]
async fn what_cannot_be_completed_in_a_transaction_is_a_typed_error() {
    let scene = Scene::new().await;
    let dsn: Arc<str> = scene.database.dsn().into();
    let own = Arc::clone(&dsn);
    // The store of a handler under test is in memory.
    let told = taskq::testing::run(
        move |_: Alone, ctx: Context| {
            let dsn = Arc::clone(&own);
            async move {
                let mut own = connect(&dsn).await?;
                let mut tx = own.transaction().await?;
                let error = ctx.complete_in(&mut tx, "done").await.unwrap_err();
                assert!(matches!(error, CompleteError::Store(StoreError::NoTransaction)), "{error:?}");
                Ok(error.to_string())
            }
        },
        Alone,
    );
    assert!(told.await.unwrap().contains("connect to a database"));

    let handler = move |_: Alone, ctx: Context| {
        let dsn = Arc::clone(&dsn);
        async move {
            let mut own = connect(&dsn).await?;
            let mut tx = own.transaction().await?;
            let error = ctx.complete_in(&mut tx, &f64::NAN).await.unwrap_err();
            assert!(matches!(error, CompleteError::Output(_)), "{error:?}");
            tx.batch_execute("SELECT 1").await?;
            tx.execute(EFFECT, &[&"no number"]).await.unwrap_err();
            tx.batch_execute("no sql").await.unwrap_err();
            let error = ctx.complete_in(&mut tx, "done").await.unwrap_err();
            assert!(matches!(error, CompleteError::Store(StoreError::Aborted)), "{error:?}");
            tx.rollback().await?;

            // For other drivers.
            let statement = ctx.complete_statement("by hand")?;
            let answer: String = own.query_one(statement.sql(), &[&statement.json()]).await?.get(0);
            statement.answered(&answer)?;
            Ok("by hand".to_owned())
        }
    };
    let worker = Worker::builder(&scene.taskq).queue("default", 1).handle::<Alone>(handler).build().unwrap();
    let job =
        scene.taskq.enqueue(&Alone).retry(RetryPolicy::fixed(Duration::ZERO)).max_attempts(1).await.unwrap();
    let worker = worker.start();
    assert_eq!(job.wait_timeout(WITHIN).await.unwrap(), "by hand");
    worker.stop();
    assert_eq!(worker.join().await.unwrap().stale, 0);
}
