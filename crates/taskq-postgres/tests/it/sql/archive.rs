//! What stands in the way of the archive, and that nothing is lost on the way there and back.

use serde_json::{Value, json};
use uuid::Uuid;

use super::mutant::Mutant;
use super::scene::{Scene, backend_pid, raised, until_blocked_by};
use super::sweeps::{Leader, buffers, leader, sweep};

/// The one who leads, and finished jobs whose hot period is over.
struct Ground {
    scene: Scene,
    leader: Leader,
}

impl Ground {
    async fn new() -> Self {
        let scene = Scene::new().await;
        let leader = leader(&scene).await;
        Self { scene, leader }
    }

    /// Writes jobs that ended so long ago, with the payloads 1, 2, …
    async fn finished(&self, jobs: usize, ago: &str) {
        self.scene
            .run(&format!(
                "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload, finished_at, prune_at)
                 SELECT taskq.make_id(now() - interval '{ago}', n), now(), now(), 'succeeded', 'q', 'a', to_jsonb(n),
                     now() - interval '{ago}', now() - interval '1 minute' + n * interval '1 microsecond'
                 FROM generate_series(1, {jobs}) n"
            ))
            .await;
    }

    fn call(&self, function: &str, rows: u32) -> String {
        format!("{function}('{}', {}, {rows})", self.leader.worker, self.leader.epoch)
    }

    async fn archive(&self) -> (i64, bool, i64, Option<String>) {
        sweep(&self.scene, &self.call("sweep_archive", 1_000)).await
    }

    async fn expire(&self) -> (i64, bool, i64, Option<String>) {
        sweep(&self.scene, &self.call("expire_archive", 1)).await
    }

    async fn make_month(&self, ago: &str) -> Option<String> {
        let (worker, epoch) = (self.leader.worker, self.leader.epoch);
        self.scene
            .value(&format!("SELECT taskq.make_archive_month('{worker}', {epoch}, now() - interval '{ago}')"))
            .await
    }

    async fn count(&self, table: &str) -> i64 {
        self.scene.value(&format!("SELECT count(*) FROM taskq.{table}")).await
    }

    /// Every job is on exactly one side, whatever was done.
    async fn assert_conserved(&self, jobs: i64) {
        let both = "SELECT count(*) FROM taskq.jobs j JOIN taskq.jobs_archive a ON a.id = j.id";
        assert_eq!(self.scene.value::<i64>(both).await, 0, "no job is on both sides");
        assert_eq!(self.count("jobs").await + self.count("jobs_archive").await, jobs);
    }
}

fn month_of(ago: &str, table: &str) -> String {
    format!("SELECT '{table}' || to_char((now() - interval '{ago}') AT TIME ZONE 'UTC', '_YYYY_MM')")
}

/// What the archive leaves out is named here, so that a new column is not forgotten.
#[tokio::test]
async fn the_archive_has_every_column() {
    let scene = Scene::new().await;
    for (table, archive, left_out, own) in [
        ("jobs", "jobs_archive", &["blocked_by", "limited", "prune_at"][..], &["archived_at"][..]),
        ("job_attempts", "job_attempts_archive", &[], &["job_finished_at"]),
    ] {
        let columns = format!(
            "SELECT array_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || a.attcollation::text ORDER BY a.attname COLLATE \"C\")
             FROM pg_attribute a
             WHERE a.attrelid = 'taskq.{table}'::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> ALL ($1)"
        );
        let left_out: Vec<&str> = left_out.to_vec();
        let all: Vec<String> = scene.client.query_one(&columns, &[&left_out]).await.unwrap().get(0);
        let of_archive = columns.replace(&format!("taskq.{table}'"), &format!("taskq.{archive}'"));
        let own: Vec<&str> = own.to_vec();
        let archived: Vec<String> = scene.client.query_one(&of_archive, &[&own]).await.unwrap().get(0);
        assert_eq!(archived, all, "{archive}");
    }
}

/// Each column there and back, with something in it.
#[tokio::test]
async fn a_job_comes_back_as_it_went() {
    let ground = Ground::new().await;
    ground.finished(1, "2 hours").await;
    ground
        .scene
        .run(
            "UPDATE taskq.jobs SET priority = 3, max_attempts = 9, payload_version = 2, claim_epoch = 7, attempt = 4,
                 locked_by_worker = gen_random_uuid(), started_at = now() - interval '3 hours', cancel_phase = 2, progress_seq = 5,
                 result_expires_at = now() + interval '1 day', error = '{\"class\": \"e\", \"message\": \"m\"}', progress = '[1]',
                 result = '[2]', cohort = 'c', schedule_to_close = now(), start_to_close = '1 min', retry_policy = '{}',
                 fairness_key = 'c', identity_key = 'i', unique_key = 'u', keep = 'all', trace_context = 't',
                 metadata = '{\"m\": 1}', tags = '{x,y}', batch_id = gen_random_uuid(), parent_id = gen_random_uuid();
             INSERT INTO taskq.job_attempts SELECT id, 6, 3, 'failed', gen_random_uuid(), now(), now(), '{}' FROM taskq.jobs",
        )
        .await;
    let document = |table: &str| {
        format!(
            "SELECT to_jsonb(t) - '{{prune_at,blocked_by,limited,archived_at,job_finished_at}}'::text[] FROM taskq.{table} t"
        )
    };
    let (job, attempt): (Value, Value) =
        (ground.scene.value(&document("jobs")).await, ground.scene.value(&document("job_attempts")).await);
    assert!(job.as_object().unwrap().values().all(|value| !value.is_null()), "{job}");
    assert_eq!(ground.archive().await, (1, false, 0, None));
    assert_eq!(ground.scene.value::<Value>(&document("jobs_archive")).await, job);
    assert_eq!(ground.scene.value::<Value>(&document("job_attempts_archive")).await, attempt);
    assert_eq!((ground.count("jobs").await, ground.count("job_attempts").await), (0, 0));
    ground.scene.run("SELECT taskq.bring_back((SELECT array_agg(id) FROM taskq.jobs_archive), NULL)").await;
    assert_eq!(ground.scene.value::<Value>(&document("jobs")).await, job);
    assert_eq!(ground.scene.value::<Value>(&document("job_attempts")).await, attempt);
    assert_eq!((ground.count("jobs_archive").await, ground.count("job_attempts_archive").await), (0, 0));
}

/// A restored dump, or a hand: the archive has a job of an id that is to go there. It is told of and left; the others go.
async fn with_known_ids(ground: &Ground) -> (i64, bool, i64, Option<String>) {
    ground.make_month("40 days").await;
    ground.make_month("0 days").await;
    ground.finished(100, "2 hours").await;
    for (payload, ended) in [(13, "a.finished_at"), (42, "a.finished_at - interval '40 days'")] {
        ground
            .scene
            .run(&format!(
                "INSERT INTO taskq.jobs_archive (id, created_at, priority, max_attempts, payload_version, scheduled_at, claim_epoch,
                     status, attempt, finished_at, archived_at, queue, actor, cohort, payload)
                 SELECT a.id, now(), 0, 1, 1, now(), 1, 'failed', 1, {ended}, now(), 'q', 'a', '', '0'
                 FROM taskq.jobs a WHERE a.payload = '{payload}'"
            ))
            .await;
    }
    ground.archive().await
}

#[tokio::test]
async fn an_id_that_the_archive_has_holds_up_no_other() {
    let ground = Ground::new().await;
    let (swept, more, problems, problem) = with_known_ids(&ground).await;
    assert_eq!((swept, more, problems), (98, false, 2));
    let problem = problem.unwrap();
    assert!(problem.starts_with("job ") && problem.contains("already"), "{problem}");
    assert_eq!((ground.count("jobs").await, ground.count("jobs_archive").await), (2, 100));
    // Met again from the start, and nothing else.
    assert_eq!(ground.archive().await.2, 2);
    // Seen as what it is among the others.
    let left: Vec<String> =
        ground.scene.value("SELECT array_agg(payload #>> '{}' ORDER BY payload) FROM taskq.jobs").await;
    assert_eq!(left, ["13", "42"]);
}

#[tokio::test]
async fn the_test_sees_ids_that_are_not_looked_for() {
    let ground = Ground::new().await;
    Mutant::of("sweep_archive")
        .replace("archived := \"taskq\".archived_ids(ids);", "")
        .apply(&ground.scene)
        .await;
    let (swept, ..) = with_known_ids(&ground).await;
    assert_ne!(swept, 98, "a job is on both sides");
}

/// One row that the archive refuses is told of and left; the others go.
#[tokio::test]
async fn a_row_that_the_archive_refuses_holds_up_no_other() {
    let ground = Ground::new().await;
    ground.make_month("2 hours").await;
    ground.finished(100, "2 hours").await;
    ground
        .scene
        .run("ALTER TABLE taskq.jobs_archive ADD CONSTRAINT unlucky CHECK (payload <> '13') NOT VALID")
        .await;
    let (swept, more, problems, problem) = ground.archive().await;
    assert_eq!((swept, more, problems), (99, false, 1));
    let problem = problem.unwrap();
    assert!(problem.starts_with("job ") && problem.contains("unlucky"), "{problem}");
    ground.assert_conserved(100).await;
}

/// Somebody took a month out of the archive. Jobs of that month stay where they are and are told of; the others go.
#[tokio::test]
async fn a_month_that_was_detached_holds_up_no_other() {
    let ground = Ground::new().await;
    assert_eq!(ground.make_month("40 days").await, None);
    let part: String = ground.scene.value(&month_of("40 days", "jobs_archive")).await;
    ground.scene.run(&format!("ALTER TABLE taskq.jobs_archive DETACH PARTITION taskq.{part}")).await;
    ground.finished(3, "40 days").await;
    ground.finished(4, "2 hours").await;
    let (swept, _, problems, problem) = ground.archive().await;
    assert_eq!((swept, problems), (4, 3));
    let problem = problem.unwrap();
    assert!(problem.contains(&part) && problem.contains("no partition"), "{problem}");
    ground.assert_conserved(7).await;
    // Put back, it is a month as any.
    let bounds: (String, String) = {
        let month = "date_trunc('month', now() - interval '40 days', 'UTC')";
        let text = format!("SELECT {month}::text, ({month} + interval '1 month')::text");
        let row = ground.scene.client.query_one(text.as_str(), &[]).await.unwrap();
        (row.get(0), row.get(1))
    };
    ground
        .scene
        .run(&format!(
            "ALTER TABLE taskq.jobs_archive ATTACH PARTITION taskq.{part} FOR VALUES FROM ('{}') TO ('{}')",
            bounds.0, bounds.1
        ))
        .await;
    assert_eq!(ground.archive().await, (3, false, 0, None));
}

/// Who reads an old month is not disturbed, holds up nobody, and the month is dropped later.
#[tokio::test]
async fn a_month_that_is_read_is_dropped_later() {
    let ground = Ground::new().await;
    ground.finished(3, "500 days").await;
    assert_eq!(ground.archive().await.0, 3);
    let reader = ground.scene.session().await;
    reader.batch_execute("BEGIN; SELECT count(*) FROM taskq.jobs_archive").await.unwrap();
    let (swept, _, problems, problem) = ground.expire().await;
    assert_eq!((swept, problems), (0, 1));
    assert!(problem.as_deref().unwrap().contains("in use"), "{problem:?}");
    // What has nothing to do with that month goes on, also while it is read.
    ground.finished(5, "2 hours").await;
    assert_eq!(ground.archive().await, (5, false, 0, None));
    reader.batch_execute("COMMIT").await.unwrap();
    assert_eq!(ground.expire().await, (1, false, 0, None));
    assert_eq!(ground.count("jobs_archive").await, 5);
    let part: String = ground.scene.value(&month_of("500 days", "job_attempts_archive")).await;
    let left: Option<String> = ground.scene.value(&format!("SELECT to_regclass('taskq.{part}')::text")).await;
    assert_eq!(left, None, "its attempts go with it");
}

/// A month that something depends on is told of, and the next one is dropped all the same.
#[tokio::test]
async fn a_month_that_cannot_be_dropped_holds_up_no_other() {
    let ground = Ground::new().await;
    for ago in ["800 days", "700 days", "600 days"] {
        assert_eq!(ground.make_month(ago).await, None);
    }
    let part: String = ground.scene.value(&month_of("800 days", "jobs_archive")).await;
    ground.scene.run(&format!("CREATE VIEW taskq.report AS SELECT id FROM taskq.{part}")).await;
    let (swept, more, problems, problem) = ground.expire().await;
    assert_eq!((swept, more, problems), (1, true, 1));
    assert!(problem.as_deref().unwrap().contains("depend"), "{problem:?}");
    assert_eq!(ground.expire().await.0, 1);
    assert_eq!(ground.expire().await.0, 0);
}

/// Dropping a month costs the same, however many jobs it has.
#[tokio::test]
async fn dropping_a_month_reads_none_of_it() {
    let mut costs = Vec::new();
    for jobs in [10, 20_000] {
        let ground = Ground::new().await;
        ground.expire().await;
        ground.finished(jobs, "500 days").await;
        assert_eq!(sweep(&ground.scene, &ground.call("sweep_archive", 20_000)).await.2, 0);
        costs.push(buffers(&ground.scene.client, &ground.call("expire_archive", 1)).await);
        assert_eq!(ground.count("jobs_archive").await, 0);
    }
    assert!(costs[1] < costs[0] + 500, "{costs:?} buffers");
}

/// Whoever retries a job while it is being archived gets it back from there.
#[tokio::test]
async fn a_job_that_is_being_archived_can_be_retried_and_not_enqueued_again() {
    let ground = Ground::new().await;
    ground.finished(2, "2 hours").await;
    let ids: Vec<Uuid> = ground.scene.value("SELECT array_agg(id ORDER BY id) FROM taskq.jobs").await;
    let (retrying, enqueuing) = (ground.scene.session().await, ground.scene.session().await);
    let observer = ground.scene.session().await;
    ground.scene.run("BEGIN").await;
    assert_eq!(ground.archive().await.0, 2);
    let pid = backend_pid(&ground.scene.client).await;
    let one = ids[0];
    let retry = tokio::spawn(async move {
        retrying
            .query_one("SELECT outcome FROM taskq.retry(ARRAY[$1::uuid])", &[&one])
            .await
            .unwrap()
            .get::<_, String>(0)
    });
    until_blocked_by(&observer, pid).await;
    let job = json!([{"id": ids[1], "actor": "a", "payload": 1}]);
    let enqueue = tokio::spawn(async move {
        let row =
            enqueuing.query_one("SELECT outcome, status FROM taskq.enqueue_many($1)", &[&job]).await.unwrap();
        (row.get::<_, String>(0), row.get::<_, String>(1))
    });
    until_both_blocked_by(&observer, pid).await;
    ground.scene.run("COMMIT").await;
    assert_eq!(retry.await.unwrap(), "retried");
    assert_eq!(enqueue.await.unwrap(), ("existing".to_owned(), "succeeded".to_owned()));
    ground.assert_conserved(2).await;
}

async fn until_both_blocked_by(observer: &tokio_postgres::Client, pid: i32) {
    taskq_testkit::wait_until("two sessions wait", std::time::Duration::from_mins(1), async || {
        let query = "SELECT count(*) = 2 FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))";
        observer.query_one(query, &[&pid]).await.unwrap().get::<_, bool>(0)
    })
    .await;
}

/// Two operators retry the same archived job: it is brought back once.
#[tokio::test]
async fn an_archived_job_is_brought_back_once() {
    let ground = Ground::new().await;
    ground.finished(1, "2 hours").await;
    assert_eq!(ground.archive().await.0, 1);
    let id: Uuid = ground.scene.value("SELECT id FROM taskq.jobs_archive").await;
    let (second, observer) = (ground.scene.session().await, ground.scene.session().await);
    let retry = "SELECT outcome FROM taskq.retry(ARRAY[$1::uuid])";
    ground.scene.run("BEGIN").await;
    let first: String = ground.scene.client.query_one(retry, &[&id]).await.unwrap().get(0);
    let pid = backend_pid(&ground.scene.client).await;
    let other =
        tokio::spawn(async move { second.query_one(retry, &[&id]).await.unwrap().get::<_, String>(0) });
    until_blocked_by(&observer, pid).await;
    ground.scene.run("COMMIT").await;
    assert_eq!((first.as_str(), other.await.unwrap().as_str()), ("retried", "unfinished"));
    ground.assert_conserved(1).await;
}

/// A key of one actor cannot come to stand for an archived job of another.
#[tokio::test]
async fn a_key_is_not_bound_to_an_archived_job_of_another_actor() {
    let ground = Ground::new().await;
    ground.finished(1, "2 hours").await;
    assert_eq!(ground.archive().await.0, 1);
    let id: Uuid = ground.scene.value("SELECT id FROM taskq.jobs_archive").await;
    let job = json!([{"id": id, "actor": "b", "payload": 1, "idempotency_key": "k"}]);
    let call = "SELECT outcome FROM taskq.enqueue_many($1)";
    let error = ground.scene.client.query_one(call, &[&job]).await.unwrap_err();
    assert_eq!(raised(&error).code().code(), "TQ002");
    let job = json!([{"id": id, "actor": "a", "payload": 1, "idempotency_key": "k"}]);
    assert_eq!(ground.scene.client.query_one(call, &[&job]).await.unwrap().get::<_, String>(0), "existing");
}

/// What is set for an actor is checked before anything is written.
#[tokio::test]
async fn what_is_set_for_an_actor_is_checked() {
    let scene = Scene::new().await;
    for (changes, what) in [
        ("NULL", "not a JSON object"),
        ("'[]'", "not a JSON object"),
        ("'{\"colour\": 1}'", "unknown field"),
        ("'{\"hot_period\": \"59 s\"}'", "shorter than 1 minute"),
        ("'{\"failed_hot_period\": 7}'", "not a string"),
        ("'{\"hot_period\": \"soon\"}'", "not an interval"),
    ] {
        let call = format!("SELECT taskq.set_actor('a', {changes})");
        let error = scene.client.query(call.as_str(), &[]).await.expect_err(&call);
        assert_eq!(raised(&error).code().code(), "TQ002", "{call}");
        assert!(raised(&error).message().contains(what), "{call}: {}", raised(&error).message());
    }
    assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.actor_config").await, 0);
    // What is not named stays.
    scene
        .run("SELECT taskq.set_actor('a', '{\"hot_period\": \"2 h\", \"failed_hot_period\": \"3 h\"}')")
        .await;
    scene.run("SELECT taskq.set_actor('a', '{\"hot_period\": null}')").await;
    let row: String =
        scene.value("SELECT (hot_period, failed_hot_period)::text FROM taskq.actor_config").await;
    assert_eq!(row, "(,03:00:00)");
}

/// A claim touches nothing of the archive: it is not held up while a month is being dropped.
#[tokio::test]
async fn a_claim_does_not_wait_for_the_archive() {
    let ground = Ground::new().await;
    ground.finished(1, "500 days").await;
    assert_eq!(ground.archive().await.0, 1);
    let worker = ground.scene.worker(1).await;
    ground.scene.enqueue(10, 1).await;
    let other = ground.scene.session().await;
    other.batch_execute("BEGIN; LOCK TABLE taskq.jobs_archive, taskq.job_attempts_archive").await.unwrap();
    ground.scene.run("SET lock_timeout = '10 s'").await;
    let attempts = super::scene::claim(&ground.scene.client, worker, 10).await.unwrap();
    let verdicts =
        super::scene::settle(&ground.scene.client, worker, &attempts, &json!({"outcome": "succeeded"})).await;
    assert!(verdicts.len() == 10 && verdicts.iter().all(|verdict| verdict.accepted));
    ground.scene.enqueue(10, 1).await;
    other.batch_execute("ROLLBACK").await.unwrap();
}
