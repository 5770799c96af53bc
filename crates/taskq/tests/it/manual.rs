//! The code of the manual, on a real server.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskq::prelude::*;
use taskq::store::SchemaProblem;
use taskq::{ConnectError, ConnectOptions, SchemaName};
use taskq_testkit::{TestDatabase, shared_server, wait_until};

/// How long anything may take that takes moments on an idle machine.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "mail.welcome", queue = "mail", output = Receipt, max_attempts = 10)]
struct SendWelcome {
    user_id: i64,
}

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Receipt {
    sent_to: i64,
}

struct Smtp;

impl Smtp {
    async fn send(&self, user_id: i64) -> anyhow::Result<Receipt> {
        tokio::task::yield_now().await;
        anyhow::ensure!(user_id > 0, "there is no user {user_id}");
        Ok(Receipt { sent_to: user_id })
    }
}

struct Mailer {
    smtp: Smtp,
}

impl Handler<SendWelcome> for Mailer {
    async fn run(&self, job: SendWelcome, _ctx: Context) -> JobResult<Receipt> {
        Ok(self.smtp.send(job.user_id).await?)
    }
}

pub(crate) async fn database() -> TestDatabase {
    let migrate = async |url: String| TaskQ::migrate_url(&url).await.map(drop);
    shared_server().await.template("facade", migrate).await.unwrap().database().await.unwrap()
}

#[tokio::test]
async fn a_job_runs_on_a_server() {
    let database = database().await;
    let (url, smtp, user_id) = (database.dsn(), Smtp, 42);

    let taskq = TaskQ::connect(url).await.unwrap();
    let handle = taskq.enqueue(&SendWelcome { user_id }).await.unwrap();
    let later = taskq.enqueue(&SendWelcome { user_id }).run_in(Duration::from_hours(1)).priority(5);
    let later = later.await.unwrap();
    let worker = Worker::builder(&taskq).queue("mail", 100).handle::<SendWelcome>(Mailer { smtp });
    let worker = worker.build().unwrap().start();

    let receipt: Receipt = handle.wait().await.unwrap();
    assert_eq!(receipt, Receipt { sent_to: 42 });
    assert_eq!(later.status().await.unwrap(), taskq::Status::Scheduled);
    // Each would wait up to two seconds for a look that nobody asks for.
    let begun = std::time::Instant::now();
    for _ in 0..30 {
        taskq.enqueue(&SendWelcome { user_id }).await.unwrap().wait().await.unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "an idle worker is woken: {:?}", begun.elapsed());
    worker.stop();
    assert_eq!(worker.join().await.unwrap().succeeded, 31);
}

#[tokio::test]
async fn connecting_fails_with_a_type() {
    let database = database().await;
    let other = ConnectOptions::new().schema(SchemaName::new("elsewhere").unwrap());
    let missing = TaskQ::connect_with(database.dsn(), other).await.unwrap_err();
    assert!(matches!(missing, ConnectError::Schema(_)), "{missing:?}");
    let nobody = TaskQ::connect("postgres://nobody@127.0.0.1:1/none").await.unwrap_err();
    assert!(matches!(nobody, ConnectError::Unavailable(_)), "{nobody:?}");
    let nonsense = TaskQ::connect("postgres://[").await.unwrap_err();
    assert!(matches!(nonsense, ConnectError::Dsn(_)), "{nonsense:?}");
}

#[tokio::test]
async fn a_schema_that_does_not_fit_is_said_at_connect_and_mended_by_a_migration() {
    let empty = shared_server().await.empty_database().await.unwrap();
    let missing = TaskQ::connect(empty.dsn()).await.unwrap_err();
    assert!(matches!(missing, ConnectError::Schema(SchemaProblem::Missing { .. })), "{missing:?}");
    assert!(missing.to_string().contains("taskq migrate up"), "{missing}");

    let elsewhere = || ConnectOptions::new().schema(SchemaName::new("jobs of mine").unwrap());
    let taskq = TaskQ::connect_with(empty.dsn(), elsewhere().check_schema(false)).await.unwrap();
    assert!(!taskq.migrate().await.unwrap().steps.is_empty());
    assert!(taskq.migrate().await.unwrap().steps.is_empty(), "once is enough");
    let taskq = TaskQ::connect_with(empty.dsn(), elsewhere()).await.unwrap();
    assert_eq!(format!("{taskq:?}"), r#"TaskQ { schema: Some(SchemaName("jobs of mine")), .. }"#);
    let handle = taskq.enqueue(&Waits).await.unwrap();
    assert_eq!(handle.status().await.unwrap(), taskq::Status::Pending);

    let admin = empty.connect().await.unwrap();
    let ledger = "\"jobs of mine\".schema_migrations";
    let unknown = format!(
        "INSERT INTO {ledger} SELECT version, phase, 'zz_of_the_future', checksum, applied_at FROM {ledger} LIMIT 1"
    );
    admin.batch_execute(&unknown).await.unwrap();
    let newer = TaskQ::connect_with(empty.dsn(), elsewhere()).await.unwrap_err();
    assert!(matches!(newer, ConnectError::Schema(SchemaProblem::TooNew { .. })), "{newer:?}");
    assert!(newer.to_string().contains("upgrade the program"), "{newer}");
    admin.batch_execute(&format!("DELETE FROM {ledger} WHERE name ~ 'future|initial'")).await.unwrap();
    let older = TaskQ::connect_with(empty.dsn(), elsewhere()).await.unwrap_err();
    assert!(matches!(older, ConnectError::Schema(SchemaProblem::TooOld { .. })), "{older:?}");
    assert!(older.to_string().contains("taskq migrate up"), "{older}");

    assert!(TaskQ::in_memory().migrate().await.unwrap().steps.is_empty());
}

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "waits")]
struct Waits;

#[tokio::test]
async fn jobs_are_cancelled_paused_and_keyed_on_a_server() {
    let database = database().await;
    let taskq = TaskQ::connect(database.dsn()).await.unwrap();
    let handler = async |_: Waits, ctx: Context| {
        ctx.cancelled().cancelled().await;
        assert_eq!(ctx.stop_reason(), Some(taskq::StopReason::CancelRequested));
        Err(JobError::from("interrupted"))
    };
    let builder = Worker::builder(&taskq).queue("default", 2).handle::<Waits>(handler);
    let worker = builder.cancel_grace(PATIENCE).build().unwrap().start();

    let keyed = || taskq.enqueue(&Waits).idempotency_key("once");
    let handle = keyed().await.unwrap();
    assert_eq!(keyed().await.unwrap().id(), handle.id());
    wait_until("it runs", PATIENCE, async || handle.status().await.unwrap() == taskq::Status::Running).await;
    assert_eq!(handle.cancel().await.unwrap(), taskq::store::CancelOutcome::Requested);
    let error = handle.wait_timeout(PATIENCE).await.unwrap_err();
    assert!(matches!(error, taskq::WaitError::Cancelled { .. }), "{error:?}");
    let finished = keyed().await.unwrap_err();
    assert!(matches!(finished, taskq::EnqueueError::AlreadyFinished { id, .. } if id == handle.id()));

    assert!(taskq.actor("waits").pause().await.unwrap());
    let held = keyed().on_finished(taskq::OnFinished::RunAgain).await.unwrap();
    assert_eq!(held.outcome(), Some(taskq::EnqueueOutcome::Replaced));
    assert_eq!(held.status().await.unwrap(), taskq::Status::Pending);
    assert!(taskq.actor("waits").resume().await.unwrap());
    taskq.cancel([held.id()], None).await.unwrap();
    let error = held.wait_timeout(PATIENCE).await.unwrap_err();
    assert!(matches!(error, taskq::WaitError::Cancelled { .. }), "{error:?}");
    worker.stop();
    assert_eq!(worker.join().await.unwrap().exit_code(), 0);
}
