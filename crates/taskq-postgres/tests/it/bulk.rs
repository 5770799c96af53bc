//! Many jobs in one call: by way of the staging table, and as documents where a session may not have one.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use taskq_core::model::{
    ActorName, EnqueueOutcome, Enqueued, FairnessKey, JobId, Json, NewJob, PAYLOAD_LIMIT, QueueName,
    RetryPolicy, Schedule, Status,
};
use taskq_core::store::{QueueMode, Store, StoreError, Wake};
use taskq_postgres::{ConnectOptions, PostgresStore};
use taskq_testkit::TestDatabase;
use tokio_postgres::Client;

use crate::connect::as_role;
use crate::database::{client, hear, migrated, store};

/// How many jobs surely go by way of the staging table.
const MANY: usize = 600;
/// The same, as the server counts.
const COUNT: i64 = 600;

struct Scene {
    database: TestDatabase,
    admin: Client,
    /// The store under test.
    store: Arc<PostgresStore>,
}

impl Scene {
    async fn new() -> Self {
        let database = migrated().await;
        let admin = client(database.dsn()).await;
        let store = store(&database).await;
        Self { database, admin, store }
    }

    /// Lets no session have a staging table any more, and returns a store that has to do without.
    async fn without_staging(&self) -> Arc<PostgresStore> {
        let refuse = "CREATE OR REPLACE FUNCTION taskq.prepare_staging() RETURNS void LANGUAGE plpgsql AS
            $$ BEGIN RAISE insufficient_privilege; END $$";
        self.admin.batch_execute(refuse).await.unwrap();
        store(&self.database).await
    }

    async fn count(&self, sql: &str) -> i64 {
        self.admin.query_one(sql, &[]).await.unwrap().get(0)
    }

    async fn jobs(&self) -> i64 {
        self.count("SELECT count(*) FROM taskq.jobs").await
    }

    /// How many sessions have a staging table, and how many bytes are in them.
    async fn staging(&self) -> (i64, i64) {
        let sql = "SELECT count(*), coalesce(sum(pg_relation_size(oid)), 0)::bigint FROM pg_class
            WHERE relname = 'taskq_staged' AND relpersistence = 't'";
        let row = self.admin.query_one(sql, &[]).await.unwrap();
        (row.get(0), row.get(1))
    }
}

/// The job with the payload `n`.
fn job(n: usize) -> NewJob {
    let payload = Json::from_value(&n, PAYLOAD_LIMIT).unwrap();
    NewJob::new(QueueName::new("q").unwrap(), ActorName::new("a").unwrap(), payload)
}

fn jobs(count: usize) -> Vec<NewJob> {
    (0..count).map(job).collect()
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The job with the payload `n`, with fields that depend on `n`: every seventh is plain.
fn varied(n: usize) -> NewJob {
    let mut job = job(n);
    job.queue = QueueName::new(format!("queue {}", n % 3)).unwrap();
    job.actor = ActorName::new(format!("actor é {}", n % 5)).unwrap();
    let has = |every: usize| !n.is_multiple_of(7) && n.is_multiple_of(every);
    if has(2) {
        job.priority = i16::try_from(n % 9).unwrap() - 4;
        job.max_attempts = i16::try_from(n % 30).unwrap() + 1;
    }
    if has(3) {
        job.payload_version = i32::try_from(n).unwrap() + 1;
        job.payload =
            Json::from_text(format!(r#"{{"n": {n}, "text": "é \" \\ {n}", "list": [1.50, null, -0]}}"#), 999)
                .unwrap();
    }
    job.schedule = match n % 11 {
        1 => Schedule::After(Duration::from_millis(n as u64)),
        2 => Schedule::After(Duration::from_hours(n as u64)),
        3 => Schedule::After(Duration::ZERO),
        4 => Schedule::At(time("2001-02-03T04:05:06.123456789Z")),
        5 => Schedule::At(time("1950-02-03T04:05:06.123456789Z")),
        6 => Schedule::At(time("2190-12-31T23:59:59.999999999Z")),
        7 => Schedule::At(time("0001-01-01T00:00:00Z")),
        _ => Schedule::Now,
    };
    if has(5) {
        job.schedule_to_close = Some(time("2199-12-31T23:59:59.987654321Z"));
        job.start_to_close = Some(Duration::from_nanos(90_061_000_000_999 + n as u64));
    }
    if has(4) {
        let base = Duration::from_micros(n as u64);
        job.retry_policy = Some(RetryPolicy { base, factor: 1.25, jitter: 0.5, ..RetryPolicy::default() });
        job.trace_context = Some(format!("00-{n}"));
    }
    if has(6) {
        job.fairness_key =
            n.is_multiple_of(3).then(|| FairnessKey::new(format!("tenant {}", n % 4)).unwrap());
        job.tags = vec![format!("tag {n}"), "a,b".to_owned(), "\"{}\"".to_owned(), "NULL".to_owned()];
        job.metadata =
            Some(Json::from_text(format!(r#"{{"tenant": {{"id": {n}}}, "none": null}}"#), 999).unwrap());
    }
    job
}

/// Every column of the jobs of a queue family, in the order of their ids, with times that the call decided made relative.
const ROWS: &str = "
    SELECT (to_jsonb(j) - '{id,created_at}'::text[] || jsonb_build_object(
        'scheduled_at', CASE WHEN j.scheduled_at BETWEEN j.created_at AND j.created_at + interval '100 years'
            THEN to_jsonb(j.scheduled_at - j.created_at) ELSE to_jsonb(j.scheduled_at) END))::text
    FROM taskq.jobs j WHERE j.id = ANY ($1) ORDER BY j.id";

async fn rows(admin: &Client, ids: &[JobId]) -> Vec<String> {
    let ids: Vec<_> = ids.iter().map(|id| id.0).collect();
    admin.query(ROWS, &[&ids]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn ten_thousand_staged_jobs_are_what_their_documents_would_be() {
    let scene = Scene::new().await;
    let turns = scene.store.set_queue(QueueName::new("queue 0").unwrap(), QueueMode::RoundRobin, 1).await;
    assert!(turns.unwrap().changed);
    let staged: Vec<_> = (0..10_000).map(varied).collect();
    let answers = scene.store.enqueue(staged.clone()).await.unwrap();
    assert_eq!(scene.staging().await, (1, 0), "they were staged, and the table is empty");

    let documents: Vec<_> = staged.iter().cloned().map(|job| NewJob { id: JobId::new(), ..job }).collect();
    let other = scene.without_staging().await;
    let expected = other.enqueue(documents.clone()).await.unwrap();
    assert_eq!(scene.staging().await, (1, 0), "they were not staged");

    let fates = |answers: &[Enqueued]| -> Vec<_> {
        answers.iter().map(|answer| (answer.outcome, answer.status)).collect()
    };
    assert_eq!(fates(&answers), fates(&expected));
    let ids = |jobs: &[NewJob]| -> Vec<_> { jobs.iter().map(|job| job.id).collect() };
    assert_eq!(answers.iter().map(|answer| answer.id).collect::<Vec<_>>(), ids(&staged));
    let (left, right) = (rows(&scene.admin, &ids(&staged)).await, rows(&scene.admin, &ids(&documents)).await);
    assert_eq!((left.len(), right.len()), (10_000, 10_000));
    for (left, right) in left.iter().zip(&right) {
        assert_eq!(left, right);
    }
}

#[tokio::test]
async fn one_bad_job_among_many_refuses_them_all_in_the_same_words_either_way() {
    type Spoil = fn(&mut NewJob, Timestamp);
    let scene = Scene::new().await;
    let clock = r#"SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"#;
    let now = time(scene.admin.query_one(clock, &[]).await.unwrap().get(0));
    let bad: Vec<(&str, Spoil)> = vec![
        ("payload", |job, _| {
            job.payload = Json::from_text(format!("\"{}\"", "x".repeat(1 << 20)), 1 << 21).unwrap();
        }),
        ("payload_version", |job, _| job.payload_version = 0),
        ("max_attempts", |job, _| job.max_attempts = -1),
        ("delay", |job, _| job.schedule = Schedule::After(Duration::MAX)),
        ("scheduled_at", |job, _| job.schedule = Schedule::At(time("0000-12-31T23:59:59Z"))),
        ("deadline that has passed", |job, now| job.schedule_to_close = Some(now - Duration::from_mins(1))),
        ("deadline long ago", |job, _| job.schedule_to_close = Some(time("-009000-01-01T00:00:00Z"))),
        ("deadline before the delay", |job, now| {
            job.schedule = Schedule::After(Duration::from_hours(2));
            job.schedule_to_close = Some(now + Duration::from_hours(1));
        }),
        ("start_to_close", |job, _| job.start_to_close = Some(Duration::from_nanos(999))),
        ("policy", |job, _| job.retry_policy = Some(RetryPolicy { factor: 101.0, ..RetryPolicy::default() })),
        ("policy, no number", |job, _| {
            job.retry_policy = Some(RetryPolicy { factor: f64::NAN, ..RetryPolicy::default() });
        }),
        ("tags", |job, _| job.tags = vec!["t".to_owned(); 65]),
        ("tag", |job, _| job.tags = vec!["a\tb".to_owned()]),
        ("tag with NUL", |job, _| job.tags = vec!["a\0b".to_owned()]),
        ("metadata", |job, _| job.metadata = Some(Json::from_text("[]".to_owned(), 9).unwrap())),
        ("metadata null", |job, _| job.metadata = Some(Json::from_text("null".to_owned(), 9).unwrap())),
        ("trace_context", |job, _| job.trace_context = Some(String::new())),
        ("fairness_key", |job, _| job.fairness_key = Some(FairnessKey::new("no turns here").unwrap())),
    ];
    let mut refusals = Vec::new();
    for (what, spoil) in &bad {
        let mut jobs = jobs(MANY);
        spoil(&mut jobs[417], now);
        spoil(&mut jobs[500], now);
        let error = scene.store.enqueue(jobs.clone()).await.expect_err(what);
        assert!(matches!(&error, StoreError::Invalid { index: Some(417), .. }), "{what}: {error:?}");
        refusals.push((what, jobs, error.to_string()));
    }
    assert_eq!((scene.jobs().await, scene.staging().await), (0, (1, 0)), "nothing was written");
    let other = scene.without_staging().await;
    for (what, jobs, refusal) in refusals {
        let error = other.enqueue(jobs).await.expect_err(what);
        assert_eq!(error.to_string(), refusal, "{what}");
    }
    assert_eq!(scene.jobs().await, 0);
}

#[tokio::test]
async fn ids_that_are_taken_are_answered_and_change_nothing() {
    let scene = Scene::new().await;
    let first = scene
        .store
        .enqueue(vec![job(1), NewJob { schedule: Schedule::After(Duration::from_hours(1)), ..job(2) }])
        .await;
    let first = first.unwrap();
    let mut many = jobs(MANY);
    // In an order that is not that of the ids, with two ids that are taken and one that comes twice.
    many.reverse();
    many[10].id = first[0].id;
    many[20].id = first[1].id;
    many[30].id = many[40].id;
    many[50].schedule = Schedule::After(Duration::from_hours(1));
    let expected: Vec<_> = many
        .iter()
        .enumerate()
        .map(|(at, job)| {
            let is_there = [10, 20, 40].contains(&at);
            let outcome = if is_there { EnqueueOutcome::Existing } else { EnqueueOutcome::Created };
            let status = if [20, 50].contains(&at) { Status::Scheduled } else { Status::Pending };
            Enqueued { id: job.id, outcome, status: Some(status) }
        })
        .collect();
    assert_eq!(scene.store.enqueue(many.clone()).await.unwrap(), expected);
    assert_eq!(scene.jobs().await, 2 + COUNT - 3);
    let twice = "SELECT payload::int8 FROM taskq.jobs WHERE id = $1";
    let kept: i64 = scene.admin.query_one(twice, &[&many[30].id.0]).await.unwrap().get(0);
    assert_eq!(kept, COUNT - 31, "of one id, the first in the call is written");

    // All of them once more, as after an answer that was lost.
    let again = scene.store.enqueue(many).await.unwrap();
    assert!(again.iter().all(|answer| answer.outcome == EnqueueOutcome::Existing));
    assert_eq!(again.iter().filter(|answer| answer.status == Some(Status::Scheduled)).count(), 2);
    assert_eq!(scene.staging().await, (1, 0));
}

#[tokio::test]
async fn many_jobs_wake_each_of_their_queues() {
    let scene = Scene::new().await;
    let mut wakes = scene.store.wakes();
    hear(&mut wakes, &Wake::Everything).await;
    let queue = |n: usize| QueueName::new(format!("q{}", n % 3)).unwrap();
    let many = jobs(MANY).into_iter().enumerate().map(|(n, job)| NewJob { queue: queue(n), ..job });
    scene.store.enqueue(many.collect()).await.unwrap();
    let mut heard = Vec::new();
    while heard.len() < 3 {
        match wakes.next().await {
            Some(Wake::Ready(queue)) => heard.push(queue),
            other => panic!("{other:?}"),
        }
    }
    heard.sort();
    assert_eq!(heard, [queue(0), queue(1), queue(2)]);
}

/// A single enqueue that got into the transaction of many would be undone with it.
#[tokio::test]
async fn what_is_enqueued_meanwhile_is_no_part_of_a_call_that_is_refused() {
    let scene = Scene::new().await;
    scene.store.enqueue(jobs(MANY)).await.unwrap();
    let mut bad = jobs(MANY);
    bad[0].max_attempts = 0;
    for _ in 0..5 {
        let many = scene.store.enqueue(bad.clone());
        let singles = (0..20).map(|n| scene.store.enqueue(vec![job(n)]));
        let (many, singles) = futures_util::future::join(many, futures_util::future::join_all(singles)).await;
        assert!(matches!(many, Err(StoreError::Invalid { index: Some(0), .. })), "{many:?}");
        for single in singles {
            assert_eq!(single.unwrap()[0].outcome, EnqueueOutcome::Created);
        }
    }
    assert_eq!(scene.jobs().await, COUNT + 100);
}

#[tokio::test]
async fn a_role_without_a_staging_table_enqueues_many_as_documents() {
    let scene = Scene::new().await;
    let role = format!("role_{}", scene.database.name());
    let grants = format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'secret';
         SELECT taskq.grant_role('{role}', 'enqueue-only');
         REVOKE EXECUTE ON FUNCTION taskq.prepare_staging FROM {role}",
    );
    scene.admin.batch_execute(&grants).await.unwrap();
    let dsn = as_role(&scene.database, &role, "secret");
    let store = PostgresStore::connect(&dsn, ConnectOptions::new()).await.unwrap();
    for _ in 0..2 {
        let answers = store.enqueue(jobs(MANY)).await.unwrap();
        assert!(answers.iter().all(|answer| answer.outcome == EnqueueOutcome::Created));
    }
    drop(store);
    assert_eq!((scene.jobs().await, scene.staging().await), (2 * COUNT, (0, 0)));
    scene.admin.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

/// As `DISCARD` does, or a pooler that gives the next transaction another session.
#[tokio::test]
async fn a_staging_table_that_was_dropped_is_done_without() {
    let scene = Scene::new().await;
    scene.store.enqueue(jobs(MANY)).await.unwrap();
    let schema: String = scene
        .admin
        .query_one(
            "SELECT relnamespace::regnamespace::text FROM pg_class WHERE relname = 'taskq_staged'",
            &[],
        )
        .await
        .unwrap()
        .get(0);
    scene.admin.batch_execute(&format!("DROP TABLE {schema}.taskq_staged")).await.unwrap();
    for _ in 0..2 {
        scene.store.enqueue(jobs(MANY)).await.unwrap();
    }
    assert_eq!(scene.jobs().await, 3 * COUNT);
}

/// A copy that is committed by itself leaves an empty table, and its jobs would be lost without a word.
#[tokio::test]
async fn jobs_that_were_staged_in_another_transaction_are_missed() {
    let scene = Scene::new().await;
    let stage = "INSERT INTO pg_temp.taskq_staged (nth, id, queue, actor, payload)
        SELECT n, taskq.make_id(now(), n), 'q', 'a', '1' FROM generate_series(1, 3) n";
    scene.admin.batch_execute("SELECT taskq.prepare_staging()").await.unwrap();
    scene.admin.batch_execute(stage).await.unwrap();
    let call = "SELECT * FROM taskq.enqueue_staged(3)";
    let error = scene.admin.query(call, &[]).await.unwrap_err();
    let message = error.as_db_error().unwrap().message().to_owned();
    assert_eq!(
        (error.code().unwrap().code(), message.as_str()),
        ("TQ002", "0 jobs are staged in this transaction, not 3")
    );
    scene.admin.batch_execute(&format!("BEGIN; {stage}; {call}; COMMIT")).await.unwrap();
    assert_eq!(scene.jobs().await, 3);
    // A field that is not there has its default, as in a document; what a document must have, a row must have.
    let defaults =
        "SELECT count(*) FROM taskq.jobs WHERE (priority, max_attempts, payload_version) = (0, 20, 1)";
    assert_eq!(scene.count(defaults).await, 3);
    for column in ["actor", "payload"] {
        let without =
            format!("BEGIN; {stage}; UPDATE pg_temp.taskq_staged SET {column} = NULL WHERE nth = 2; {call}");
        let error = scene.admin.batch_execute(&without).await.unwrap_err();
        assert_eq!(error.as_db_error().unwrap().message(), format!("element 1: {column} is missing"));
        scene.admin.batch_execute("ROLLBACK").await.unwrap();
    }
}

#[tokio::test]
async fn few_jobs_make_no_staging_table_and_keys_are_kept() {
    let scene = Scene::new().await;
    scene.store.enqueue(jobs(499)).await.unwrap();
    let key = |n: usize| Some(format!("key {}", n % 550).try_into().unwrap());
    let keyed = jobs(MANY).into_iter().enumerate().map(|(n, job)| NewJob { idempotency_key: key(n), ..job });
    let answers = scene.store.enqueue(keyed.collect()).await.unwrap();
    assert_eq!(answers.iter().filter(|answer| answer.outcome == EnqueueOutcome::Created).count(), 550);
    assert_eq!((scene.jobs().await, scene.staging().await), (499 + 550, (0, 0)));
}
