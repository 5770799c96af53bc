//! A server of one's own, and what every scenario asks of it.

use std::fmt::Display;
use std::time::Duration;

use taskq::prelude::*;
use taskq::{JobId, NewJob, WorkerHandle};
use taskq_testkit::invariants::{Event, ExecutionLog, check, read_log};
use taskq_testkit::{Options, PgSource, PrivateServer, wait_for, wait_until};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use crate::crew::{Deed, Member, RETRY, Task, WITHIN};

/// How many jobs one call writes.
const BATCH: usize = 1_000;

pub(crate) struct Scene {
    pub(crate) server: PrivateServer,
    pub(crate) url: String,
    pub(crate) log: TempDir,
}

/// Whether the short forms are asked for.
pub(crate) fn short() -> bool {
    std::env::var("TASKQ_SOAK").is_ok_and(|size| size == "short")
}

/// A number for the short form and one for the full form; the variable overrides both.
pub(crate) fn size(variable: &str, in_short: u64, in_full: u64) -> u64 {
    let given = std::env::var(variable).ok().map(|value| value.parse().expect("a number"));
    given.unwrap_or(if short() { in_short } else { in_full })
}

/// Says what was measured.
pub(crate) fn fact(name: &str, value: impl Display) {
    println!("\nfact: {name} = {value}");
}

pub(crate) fn ms(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap()
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let server = PrivateServer::start(Options::fast(PgSource::from_env().unwrap())).await.unwrap();
        let url = server.cluster().create_database("soak").await.unwrap();
        TaskQ::migrate_url(&url).await.unwrap();
        fact("server", server.version());
        Self { server, url, log: tempfile::tempdir().unwrap() }
    }

    pub(crate) async fn taskq(&self) -> TaskQ {
        TaskQ::connect(&self.url).await.unwrap()
    }

    pub(crate) fn member(&self, lease: Duration) -> Member {
        Member::new(&self.url, self.log.path(), lease)
    }

    pub(crate) fn harness(&self) -> ExecutionLog {
        ExecutionLog::open(self.log.path()).unwrap()
    }

    /// A session in the database, as soon as it can be had.
    pub(crate) async fn admin(&self) -> Client {
        let connect = async || tokio_postgres::connect(&self.url, NoTls).await.ok();
        let (client, connection) = wait_for("a session", WITHIN, connect).await;
        tokio::spawn(connection);
        client
    }

    /// The number that a query returns.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        self.admin().await.query_one(query, &[]).await.unwrap().get(0)
    }

    /// Enqueues jobs that do the same.
    pub(crate) async fn enqueue(&self, count: u64, deed: &Deed) -> Vec<Uuid> {
        let taskq = self.taskq().await;
        let jobs: Vec<NewJob> = (0..count).map(|_| new_job(&taskq, deed)).collect();
        for batch in jobs.chunks(BATCH) {
            taskq.enqueue_raw(batch.to_vec()).await.unwrap();
        }
        jobs.iter().map(|job| job.id.0).collect()
    }

    /// A worker in this process that only leads, once it does.
    pub(crate) async fn leading(&self) -> WorkerHandle {
        let taskq = self.taskq().await;
        let builder = Worker::builder(&taskq).queue("nothing", 1).actor("nothing", async |_, _| Ok(None));
        let worker = builder.build().unwrap().start();
        wait_until("a leader", WITHIN, async || taskq.leader().await.unwrap().is_some()).await;
        worker
    }

    /// Waits until so many handlers have begun: a job that the store calls running may not have got as far as that.
    pub(crate) async fn begun(&self, attempts: u64) {
        wait_until("the attempts", WITHIN, async || self.starts().len() as u64 >= attempts).await;
    }

    /// Waits until every job has ended.
    pub(crate) async fn all_ended(&self, within: Duration) {
        let query = "SELECT count(*) FROM taskq.jobs WHERE finished_at IS NULL";
        wait_until("the end of every job", within, async || self.number(query).await == 0).await;
    }

    /// Checks the invariants, and says how often attempts began.
    pub(crate) async fn check(&self, enqueued: &[Uuid]) {
        let violations = check(&self.admin().await, self.log.path(), enqueued).await.unwrap();
        fact("jobs", self.number("SELECT count(*) FROM taskq.jobs").await);
        fact("started attempts", self.starts().len());
        let query = "SELECT coalesce(string_agg(outcome || ' ' || n, ', ' ORDER BY outcome), 'none')
                     FROM (SELECT outcome, count(*) AS n FROM taskq.job_attempts GROUP BY outcome) x";
        fact("attempts that did not end their job", self.text(query).await);
        let query = "SELECT string_agg(status || ' ' || n, ', ' ORDER BY status)
                     FROM (SELECT status::text, count(*) AS n FROM taskq.jobs GROUP BY status) x";
        fact("ends", self.text(query).await);
        let query = "SELECT max(attempt) FROM (SELECT attempt FROM taskq.jobs
                     UNION ALL SELECT attempt FROM taskq.job_attempts) x";
        let most: i32 = self.admin().await.query_one(query, &[]).await.unwrap().get(0);
        fact("most attempts of a job", most);
        fact("violations", violations.len());
        assert!(violations.is_empty(), "{:#?}", &violations[..violations.len().min(20)]);
    }

    /// The job of each attempt that began.
    pub(crate) fn starts(&self) -> Vec<Uuid> {
        let records = read_log(self.log.path()).unwrap();
        let start = |record: taskq_testkit::invariants::Record| match record.event {
            Event::Start(key) => Some(key.job),
            _ => None,
        };
        records.into_iter().filter_map(start).collect()
    }

    async fn text(&self, query: &str) -> String {
        self.admin().await.query_one(query, &[]).await.unwrap().get(0)
    }
}

/// A job of the crew.
pub(crate) fn new_job(taskq: &TaskQ, deed: &Deed) -> NewJob {
    let job = taskq.enqueue(&Task(deed.clone())).retry(RETRY).into_new_job().unwrap();
    NewJob { id: JobId::new(), ..job }
}
