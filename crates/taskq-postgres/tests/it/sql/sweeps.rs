//! What the leader's sweeps read, and what stands in their way.

use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

use super::mutant::Mutant;
use super::scene::{Scene, backend_pid, claim, raised, settle, until_blocked_by};

/// The most buffers that a sweep without anything to do may touch, and the question whether it has.
const NOTHING_TO_DO: i64 = 10;

/// A sweep with an order of time: its name, its function, and how rows for it are made that
/// are due in a while, each at a time of its own.
struct Ordered {
    sweep: &'static str,
    function: &'static str,
    rows: &'static str,
}

const ORDERED: [Ordered; 6] = [
    Ordered {
        sweep: "promote",
        function: "promote",
        rows: "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload)
               SELECT gen_random_uuid(), now(), $due, 'scheduled', 'q', 'a', '1' FROM generate_series(1, $rows) n",
    },
    Ordered {
        sweep: "deadlines",
        function: "sweep_deadlines",
        rows: "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload, schedule_to_close)
               SELECT gen_random_uuid(), now(), now(), 'pending', 'q', 'a', '1', $due FROM generate_series(1, $rows) n",
    },
    Ordered {
        sweep: "results",
        function: "sweep_results",
        rows: "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload, finished_at, prune_at,
                   result, result_expires_at)
               SELECT gen_random_uuid(), now(), now(), 'succeeded', 'q', 'a', '1', now(), now() + interval '1 day', '1',
                   $due FROM generate_series(1, $rows) n",
    },
    Ordered {
        sweep: "events",
        function: "sweep_events",
        rows: "INSERT INTO taskq.job_events (job_id, occurred_at, kind)
               SELECT gen_random_uuid(), $due - interval '7 days', 'told' FROM generate_series(1, $rows) n",
    },
    Ordered {
        sweep: "idempotency_keys",
        function: "forget_keys",
        rows: "INSERT INTO taskq.idempotency_keys
               SELECT 'a', gen_random_uuid()::text, gen_random_uuid(), $due FROM generate_series(1, $rows) n",
    },
    Ordered {
        sweep: "archive",
        function: "sweep_archive",
        rows: "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload, finished_at, prune_at)
               SELECT gen_random_uuid(), now(), now(), 'succeeded', 'q', 'a', '1', now(), $due FROM generate_series(1, $rows) n",
    },
];

impl Ordered {
    async fn fill(&self, scene: &Scene, rows: usize, due: &str) {
        let due = format!("now() + interval '{due}' + n * interval '1 microsecond'");
        let sql = self.rows.replace("$rows", &rows.to_string()).replace("$due", &due);
        scene.run(&sql).await;
    }

    fn call(&self, leader: Leader, limit: u32) -> String {
        format!("{}('{}', {}, {limit})", self.function, leader.worker, leader.epoch)
    }

    /// The question whether the sweep has anything to do, behind a time.
    fn question(&self, leader: Leader, behind: Option<&str>) -> String {
        let probe = match behind {
            Some(at) => json!([{"sweep": self.sweep, "from": "key", "at": at}]),
            None => json!([{"sweep": self.sweep, "from": "start"}]),
        };
        format!("sweeps_due('{}', {}, '{probe}')", leader.worker, leader.epoch)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Leader {
    pub(crate) worker: Uuid,
    pub(crate) epoch: i64,
}

pub(crate) async fn leader(scene: &Scene) -> Leader {
    let worker = scene.worker(1).await;
    let lead = "SELECT epoch FROM taskq.heartbeat($1, '1 hour', NULL, '1 hour') WHERE kind = 'leader'";
    Leader { worker, epoch: scene.client.query_one(lead, &[&worker]).await.unwrap().get(0) }
}

/// A schema whose tables are never vacuumed by themselves.
async fn scene() -> Scene {
    let scene = Scene::new().await;
    for table in ["jobs", "job_events", "idempotency_keys", "workers"] {
        // Unlogged, so that so many rows do not roll the log over that other tests read.
        let alter = format!("ALTER TABLE taskq.{table} SET (autovacuum_enabled = off), SET UNLOGGED");
        scene.run(&alter).await;
    }
    scene
}

pub(crate) async fn buffers(client: &Client, call: &str) -> i64 {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) SELECT * FROM taskq.{call}");
    let plan: Value = client.query_one(explain.as_str(), &[]).await.unwrap().get(0);
    let number = |name: &str| plan[0]["Plan"][name].as_i64().unwrap();
    number("Shared Hit Blocks") + number("Shared Read Blocks")
}

/// The least of several calls: a session now and then reads the catalog again, and the first reader cleans pages.
async fn cost(client: &Client, call: &str) -> i64 {
    let mut least = i64::MAX;
    for _ in 0..7 {
        least = least.min(buffers(client, call).await);
    }
    least
}

/// Rows of a sweep's answer: how many it changed, whether there may be more, its problems.
pub(crate) async fn sweep(scene: &Scene, call: &str) -> (i64, bool, i64, Option<String>) {
    let sql = format!("SELECT swept, more, problems, problem FROM taskq.{call}");
    let row = scene.client.query_one(sql.as_str(), &[]).await.unwrap();
    (row.get(0), row.get(1), row.get(2), row.get(3))
}

#[tokio::test]
async fn a_sweep_without_anything_to_do_reads_next_to_nothing() {
    let scene = scene().await;
    let leader = leader(&scene).await;
    // A year of the archive.
    for ago in 1..=12 {
        let month = format!("now() - interval '{ago} months'");
        let make = format!("SELECT taskq.make_archive_month('{}', {}, {month})", leader.worker, leader.epoch);
        assert_eq!(scene.value::<Option<String>>(&make).await, None);
    }
    // Plans are made when nothing is there.
    for sweep in ORDERED {
        cost(&scene.client, &sweep.call(leader, 1_000)).await;
        cost(&scene.client, &sweep.question(leader, None)).await;
    }
    // Rows that are kept longer than the rest.
    for sweep in ORDERED {
        sweep.fill(&scene, 100_000, "1 day").await;
    }
    for sweep in ORDERED {
        for call in [sweep.call(leader, 1_000), sweep.question(leader, None)] {
            let read = cost(&scene.client, &call).await;
            assert!(read <= NOTHING_TO_DO, "{call}: {read} buffers");
        }
    }
    for function in ["mark_lost", "reclaim", "forget_workers", "expire_archive", "sweep_restamp"] {
        let call = format!("{function}('{}', {}, 1000)", leader.worker, leader.epoch);
        let read = cost(&scene.client, &call).await;
        assert!(read <= NOTHING_TO_DO, "{call}: {read} buffers");
    }
    for sweep in ["mark_lost", "reclaim", "workers", "archive_expiry", "restamp"] {
        let probe = json!([{"sweep": sweep, "from": "start"}]);
        let call = format!("sweeps_due('{}', {}, '{probe}')", leader.worker, leader.epoch);
        let read = cost(&scene.client, &call).await;
        assert!(read <= NOTHING_TO_DO, "{call}: {read} buffers");
    }
}

/// And the oracle can fail: each sweep without the index it relies on.
#[tokio::test]
async fn the_oracle_sees_the_indexes_go() {
    let scene = scene().await;
    let leader = leader(&scene).await;
    for sweep in ORDERED {
        sweep.fill(&scene, 10_000, "1 day").await;
    }
    for index in [
        "jobs_scheduled_idx",
        "jobs_deadline_idx",
        "jobs_result_expiry_idx",
        "job_events_occurred_at_idx",
        "idempotency_keys_expires_at_idx",
        "jobs_finished_idx",
    ] {
        scene.run(&format!("DROP INDEX taskq.{index}")).await;
    }
    for sweep in ORDERED {
        for call in [sweep.call(leader, 1_000), sweep.question(leader, None)] {
            let read = cost(&scene.client, &call).await;
            assert!(read > NOTHING_TO_DO, "{call}: {read} buffers without its index");
        }
    }
}

/// What was swept leaves entries in the index as long as somebody's snapshot is older. A look from the start reads them
/// all; one that goes on from the last key reads none.
#[tokio::test]
async fn under_a_held_snapshot_a_sweep_goes_on_from_its_last_key() {
    let scene = scene().await;
    let leader = leader(&scene).await;
    let holder = scene.session().await;
    for sweep in ORDERED {
        sweep.fill(&scene, 5_000, "-1 hour").await;
    }
    holder
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM taskq.jobs")
        .await
        .unwrap();
    for sweep in ORDERED {
        let call = sweep.call(leader, 5_000);
        let sql = format!("SELECT swept, reached_at::text FROM taskq.{call}");
        let row = scene.client.query_one(sql.as_str(), &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), 5_000, "{}", sweep.sweep);
        let reached: String = row.get(1);
        let from_start = cost(&scene.client, &sweep.question(leader, None)).await;
        assert!(from_start > 50, "{}: the snapshot keeps nothing ({from_start} buffers)", sweep.sweep);
        let behind = cost(&scene.client, &sweep.question(leader, Some(&reached))).await;
        assert!(behind <= NOTHING_TO_DO, "{}: {behind} buffers behind its last key", sweep.sweep);
        let again = format!("{}('{}', {}, 1000, '{reached}')", sweep.function, leader.worker, leader.epoch);
        let read = cost(&scene.client, &again).await;
        assert!(read <= NOTHING_TO_DO, "{again}: {read} buffers");
    }
    holder.batch_execute("COMMIT").await.unwrap();
}

/// Jobs leave the index of deadlines when they are claimed, long before those deadlines: their dead entries lie ahead of now,
/// where no key leads past them.
#[tokio::test]
async fn under_a_held_snapshot_deadlines_far_ahead_of_claimed_jobs_are_not_read() {
    let scene = scene().await;
    let leader = leader(&scene).await;
    let deadlines = &ORDERED[1];
    for breaks in [false, true] {
        if breaks {
            let ahead = "AND j.schedule_to_close <= now + interval '2 seconds'";
            Mutant::of("sweep_head").replace(ahead, "").apply(&scene).await;
        }
        deadlines.fill(&scene, 5_000, "1 hour").await;
        let holder = scene.session().await;
        holder
            .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM taskq.jobs")
            .await
            .unwrap();
        scene.run("DELETE FROM taskq.jobs").await;
        let read = cost(&scene.client, &deadlines.question(leader, None)).await;
        if breaks {
            assert!(read > 50, "the snapshot keeps nothing ({read} buffers)");
        } else {
            assert!(read <= NOTHING_TO_DO, "{read} buffers");
            let read = cost(&scene.client, &deadlines.call(leader, 1_000)).await;
            assert!(read <= NOTHING_TO_DO, "a batch: {read} buffers");
        }
        holder.batch_execute("COMMIT").await.unwrap();
    }
}

#[tokio::test]
async fn the_oracle_sees_a_sweep_that_forgets_its_key() {
    let scene = scene().await;
    let leader = leader(&scene).await;
    Mutant::of("sweep_head")
        .replace("(j.scheduled_at, j.id) > (from_at, first_id)", "true")
        .apply(&scene)
        .await;
    Mutant::of("promote").replace("(j.scheduled_at, j.id) > (from_at, from_id)", "true").apply(&scene).await;
    let promote = &ORDERED[0];
    promote.fill(&scene, 5_000, "-1 hour").await;
    let holder = scene.session().await;
    holder
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM taskq.jobs")
        .await
        .unwrap();
    assert_eq!(sweep(&scene, &promote.call(leader, 5_000)).await.0, 5_000);
    let behind = cost(&scene.client, &promote.question(leader, Some("2100-01-01T00:00:00Z"))).await;
    assert!(behind > NOTHING_TO_DO, "{behind} buffers");
    holder.batch_execute("COMMIT").await.unwrap();
}

/// Lost workers cost one look each until their jobs are taken, and none afterwards, whatever they have run.
#[tokio::test]
async fn a_lost_worker_that_is_dealt_with_is_not_looked_through_again() {
    let scene = scene().await;
    let leader = leader(&scene).await;
    let worker = scene.worker(1).await;
    let holder = scene.session().await;
    holder
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM taskq.jobs")
        .await
        .unwrap();
    scene.enqueue(2_000, 1).await;
    let attempts = claim(&scene.client, worker, 2_000).await.unwrap();
    settle(&scene.client, worker, &attempts, &json!({"outcome": "succeeded"})).await;
    scene.expire(worker).await;
    let call = |function: &str| format!("{function}('{}', {}, 1000)", leader.worker, leader.epoch);
    assert_eq!(sweep(&scene, &call("mark_lost")).await.0, 1);
    let first = buffers(&scene.client, &call("reclaim")).await;
    assert!(first > 50, "the snapshot keeps nothing: {first} buffers");
    let again = cost(&scene.client, &call("reclaim")).await;
    assert!(again <= NOTHING_TO_DO, "{again} buffers");
    holder.batch_execute("COMMIT").await.unwrap();
}

/// A worker whose life left very many entries is searched in slices: each call goes on where the one before was.
#[tokio::test]
async fn under_a_held_snapshot_a_rescue_goes_on_behind_its_place() {
    let scene = scene().await;
    let leader = leader(&scene).await;
    let worker = scene.worker(1).await;
    scene
        .run(&format!(
            "UPDATE taskq.workers SET started_at = now() - interval '10 hours' WHERE id = '{worker}';
             INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload, locked_by_worker, started_at,
                 attempt, claim_epoch)
             SELECT gen_random_uuid(), now(), now(), 'running', 'q', 'a', '1', '{worker}',
                 now() - interval '10 hours' + n * interval '16 seconds', 1, 1
             FROM generate_series(1, 2240) n"
        ))
        .await;
    let holder = scene.session().await;
    holder
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM taskq.jobs")
        .await
        .unwrap();
    scene.run("DELETE FROM taskq.jobs WHERE started_at < now() - interval '12 minutes'").await;
    let alive: i64 = scene.value("SELECT count(*) FROM taskq.jobs").await;
    assert!(alive > 5, "{alive}");
    scene.expire(worker).await;
    let arguments = format!("'{}', {}", leader.worker, leader.epoch);
    assert_eq!(sweep(&scene, &format!("mark_lost({arguments}, 1000)")).await.0, 1);

    // One slice a call, of some minutes.
    Mutant::of("reclaim")
        .replace("interval '500 milliseconds'", "interval '0 seconds'")
        .replace("interval '10 milliseconds' * max_rows", "interval '1000 seconds'")
        .apply(&scene)
        .await;
    let (mut place, mut taken, mut calls) = (String::new(), 0, 0);
    loop {
        let sql = format!(
            "SELECT count(id), max(reached_at)::text, max(reached_id) FROM taskq.reclaim({arguments}, 1000{place})"
        );
        let row = scene.client.query_one(sql.as_str(), &[]).await.unwrap();
        taken += row.get::<_, i64>(0);
        calls += 1;
        assert!(calls < 100, "it does not come to an end");
        let Some(at) = row.get::<_, Option<String>>(1) else { break };
        place = format!(", after_at => '{at}', after_id => '{}'", row.get::<_, String>(2));
    }
    assert_eq!(taken, alive, "every job was found");
    assert!(calls > 5, "{calls} slices");
    let dealt_with = "SELECT reclaimed_at IS NOT NULL FROM taskq.workers WHERE state = 'lost'";
    assert!(scene.value::<bool>(dealt_with).await, "and the worker is dealt with");

    let again = "UPDATE taskq.workers SET reclaimed_at = NULL WHERE state = 'lost'";
    scene.run(again).await;
    let slice = buffers(&scene.client, &format!("reclaim({arguments}, 1000{place})")).await;
    scene.run(again).await;
    Mutant::of("reclaim").replace("interval '0 seconds'", "interval '1 hour'").apply(&scene).await;
    let whole = buffers(&scene.client, &format!("reclaim({arguments}, 1000)")).await;
    assert!(slice * 3 < whole, "a slice reads {slice} buffers of {whole}");
    holder.batch_execute("COMMIT").await.unwrap();
}

/// One row that cannot be changed is reported and left; the others are swept.
#[tokio::test]
async fn a_row_that_cannot_be_changed_holds_up_no_other() {
    for (nth, sweep_of) in ORDERED.iter().enumerate().take(3) {
        let scene = scene().await;
        let leader = leader(&scene).await;
        sweep_of.fill(&scene, 100, "-1 hour").await;
        scene
            .run(
                "UPDATE taskq.jobs SET payload = '13' WHERE id = (SELECT id FROM taskq.jobs ORDER BY id OFFSET 41 LIMIT 1);
                 ALTER TABLE taskq.jobs ADD CONSTRAINT unlucky
                     CHECK (payload <> '13' OR status NOT IN ('failed', 'pending') AND result IS NOT NULL) NOT VALID",
            )
            .await;
        if nth == 1 {
            // What is pending already must not violate it.
            scene
                .run(
                    "ALTER TABLE taskq.jobs DROP CONSTRAINT unlucky,
                         ADD CONSTRAINT unlucky CHECK (payload <> '13' OR status <> 'failed') NOT VALID",
                )
                .await;
        }
        let (swept, more, problems, problem) = sweep(&scene, &sweep_of.call(leader, 1_000)).await;
        assert_eq!((swept, more, problems), (99, false, 1), "{}", sweep_of.sweep);
        let problem = problem.unwrap();
        assert!(problem.contains("unlucky") && problem.starts_with("job "), "{problem}");
        // Told once, and behind the key there is nothing.
        let (swept, _, problems, _) = sweep(&scene, &sweep_of.call(leader, 1_000)).await;
        assert_eq!((swept, problems), (0, 1), "{}: from the start it is met again", sweep_of.sweep);
    }
}

/// Two sweeps of the same events: the second finds that they are gone.
#[tokio::test]
async fn a_second_sweep_of_the_same_events_deletes_nothing() {
    let scene = scene().await;
    let leader = leader(&scene).await;
    ORDERED[3].fill(&scene, 200, "-1 hour").await;
    scene.run("BEGIN").await;
    assert_eq!(sweep(&scene, &ORDERED[3].call(leader, 1_000)).await.0, 200);
    let pid = backend_pid(&scene.client).await;
    let (second, observer) = (scene.session().await, scene.session().await);
    let call = format!("SELECT swept FROM taskq.{}", ORDERED[3].call(leader, 1_000));
    let sweeping = tokio::spawn(async move { second.query_one(call.as_str(), &[]).await });
    until_blocked_by(&observer, pid).await;
    scene.run("COMMIT").await;
    assert_eq!(sweeping.await.unwrap().unwrap().get::<_, i64>(0), 0);
    assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.job_events").await, 0);
}

/// Events go oldest first, one committed batch a call.
#[tokio::test]
async fn events_go_oldest_first_and_a_batch_at_a_time() {
    let scene = scene().await;
    let leader = leader(&scene).await;
    for day in [3, 1, 2] {
        scene
            .run(&format!(
                "INSERT INTO taskq.job_events (job_id, occurred_at, kind)
                 VALUES (gen_random_uuid(), now() - interval '8 days' - {day} * interval '1 day', '{day}')"
            ))
            .await;
    }
    let left = "SELECT coalesce(array_agg(kind ORDER BY occurred_at), '{}') FROM taskq.job_events";
    for expected in [&["2", "1"][..], &["1"][..], &[][..]] {
        let (swept, more, ..) = sweep(&scene, &ORDERED[3].call(leader, 1)).await;
        assert_eq!((swept, more), (1, true));
        assert_eq!(scene.value::<Vec<String>>(left).await, expected);
    }
    assert_eq!(sweep(&scene, &ORDERED[3].call(leader, 1)).await, (0, false, 0, None));
}

/// A key that somebody takes anew while it is swept stays.
#[tokio::test]
async fn a_key_that_is_being_taken_anew_is_not_forgotten() {
    let scene = scene().await;
    let leader = leader(&scene).await;
    ORDERED[4].fill(&scene, 3, "-1 hour").await;
    scene
        .run(
            "BEGIN; UPDATE taskq.idempotency_keys SET expires_at = now() + interval '7 days'
             WHERE idempotency_key = (SELECT min(idempotency_key) FROM taskq.idempotency_keys)",
        )
        .await;
    let other = scene.session().await;
    let call = format!("SELECT swept FROM taskq.{}", ORDERED[4].call(leader, 10));
    assert_eq!(other.query_one(call.as_str(), &[]).await.unwrap().get::<_, i64>(0), 2);
    scene.run("COMMIT").await;
    assert_eq!(other.query_one(call.as_str(), &[]).await.unwrap().get::<_, i64>(0), 0);
    assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.idempotency_keys").await, 1);
}

/// A row that somebody wrote into the table by hand stops its own sweep and no other, and says which it is.
/// What the leader's process sets itself counts, also where the table holds what makes no sense.
#[tokio::test]
async fn a_bad_setting_does_not_stop_a_process_that_sets_it_itself() {
    let scene = scene().await;
    let leader = leader(&scene).await;
    ORDERED[3].fill(&scene, 3, "-8 days").await;
    let ask = async |own: &str| {
        let sql = format!(
            "SELECT due_in = '0', batch, problem FROM taskq.sweeps_due('{}', {}, '[{{\"sweep\": \"events\"{own}}}]')",
            leader.worker, leader.epoch
        );
        let row = scene.client.query_one(sql.as_str(), &[]).await.unwrap();
        (row.get::<_, Option<bool>>(0), row.get::<_, Option<i32>>(1), row.get::<_, Option<String>>(2))
    };
    let (period, batch) = (r#", "period": "1 day""#, r#", "batch": 5"#);
    let insert = "INSERT INTO taskq.settings VALUES ('event_retention_period', '\"soon\"')";
    scene.run(insert).await;
    assert!(ask(batch).await.2.unwrap().contains("soon"), "the other one's value does not help");
    assert_eq!(ask(period).await, (Some(true), None, None));
    let call = format!("sweep_events('{}', {}, 2, keep => '1 day')", leader.worker, leader.epoch);
    assert_eq!(sweep(&scene, &call).await.0, 2);
    let insert = "INSERT INTO taskq.settings VALUES ('event_retention_batch_size', '0')";
    scene.run(insert).await;
    assert!(ask(period).await.2.unwrap().contains("event_retention_batch_size"));
    assert_eq!(ask(&format!("{period}{batch}")).await, (Some(true), None, None));
}

#[tokio::test]
async fn a_setting_that_makes_no_sense_is_named() {
    let scene = scene().await;
    let leader = leader(&scene).await;
    ORDERED[3].fill(&scene, 1, "-1 hour").await;
    for (name, value, what) in [
        ("event_retention_period", "\"-3 days\"", "is negative"),
        ("event_retention_period", "\"soon\"", "is not an interval"),
        ("event_retention_period", "7", "is not a string"),
        ("event_retention_period", "\"40000 days\"", "longer than 36600 days"),
        ("event_retention_batch_size", "0", "from 1 to 100000"),
        ("event_retention_batch_size", "1.5", "from 1 to 100000"),
        ("event_retention_batch_size", "\"many\"", "is not a number"),
        ("result_ttl", "\"-1 s\"", "is negative"),
        ("hot_period", "\"59 s\"", "shorter than 1 minute"),
        ("failed_hot_period", "\"40000 days\"", "longer than 36600 days"),
        ("archive_retention_period", "\"-1 day\"", "is negative"),
        ("event_level", "\"some\"", "\"notable\""),
        ("colour", "1", "there is no such setting"),
    ] {
        let set = format!("SELECT taskq.set_setting('{name}', '{value}')");
        let error = scene.client.query(set.as_str(), &[]).await.expect_err(&set);
        let message = raised(&error).message();
        assert_eq!(raised(&error).code().code(), "TQ002", "{set}");
        assert!(message.contains(name) && message.contains(what), "{set}: {message}");
        if !name.starts_with("event_retention") {
            continue;
        }
        scene
            .run(&format!("TRUNCATE taskq.settings; INSERT INTO taskq.settings VALUES ('{name}', '{value}')"))
            .await;
        let ask = format!("SELECT problem FROM taskq.{}", ORDERED[3].question(leader, None));
        let problem: Option<String> = scene.value(&ask).await;
        let problem = problem.unwrap_or_else(|| panic!("{name} = {value} is not noticed"));
        assert!(problem.contains("table settings") && problem.contains(what), "{problem}");
        let ask = format!("SELECT problem FROM taskq.{}", ORDERED[0].question(leader, None));
        assert_eq!(scene.value::<Option<String>>(&ask).await, None);
    }
    scene.run("TRUNCATE taskq.settings").await;
    scene.run("SELECT taskq.set_setting('event_retention_period', '\"30 days\"')").await;
    assert_eq!(sweep(&scene, &ORDERED[3].call(leader, 10)).await.0, 0);
    scene.run("SELECT taskq.set_setting('event_retention_period', NULL)").await;
    assert_eq!(sweep(&scene, &ORDERED[3].call(leader, 10)).await.0, 1);
    for sql in ["set_setting('colour', NULL)", "set_setting(NULL, '1')"] {
        let error = scene.client.query(&format!("SELECT taskq.{sql}"), &[]).await.expect_err(sql);
        assert_eq!(raised(&error).code().code(), "TQ002", "{sql}");
    }
}

/// What an attempt may take is read by one probe, whatever the worker runs, also when it has no bound.
#[tokio::test]
async fn a_beat_does_not_read_what_runs_to_find_what_is_overdue() {
    let scene = scene().await;
    let worker = scene.worker(1).await;
    let beat = format!("heartbeat('{worker}', '1 hour')");
    cost(&scene.client, &beat).await;
    let documents: Vec<Value> = (0..5_000)
        .map(|n| json!({"queue": "q", "actor": "actor0", "payload": n, "start_to_close": "1 day"}))
        .collect();
    scene
        .client
        .execute("SELECT count(*) FROM taskq.enqueue_many($1)", &[&Value::from(documents)])
        .await
        .unwrap();
    scene.enqueue(5_000, 1).await;
    claim(&scene.client, worker, 5_000).await.unwrap();
    claim(&scene.client, worker, 5_000).await.unwrap();
    let read = cost(&scene.client, &beat).await;
    assert!(read < 40, "{read} buffers");
    scene.run("UPDATE taskq.jobs SET start_to_close = '1 s', started_at = now() - interval '10 s' WHERE payload = '7'").await;
    let told = "SELECT count(*) FROM taskq.heartbeat($1, '1 hour') WHERE kind = 'overdue'";
    let told: i64 = scene.client.query_one(told, &[&worker]).await.unwrap().get(0);
    assert!((1..=2).contains(&told), "{told}: of the two lots one has bounds");
}
