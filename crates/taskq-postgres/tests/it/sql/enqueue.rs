//! Every way to enqueue what cannot be enqueued, and what a valid call answers.

use serde_json::{Value, json};
use uuid::Uuid;

use super::scene::{Scene, raised};

/// Enqueues as an untyped client does; returns SQLSTATE, message and detail of the refusal.
async fn refusal(scene: &Scene, jobs: &Value) -> (String, String, Option<String>) {
    let error = scene
        .client
        .query("SELECT * FROM taskq.enqueue_many($1)", &[jobs])
        .await
        .expect_err(&format!("accepted: {jobs}"));
    let error = raised(&error);
    (error.code().code().to_owned(), error.message().to_owned(), error.detail().map(str::to_owned))
}

#[tokio::test]
async fn every_bad_document_is_refused_by_index_and_nothing_is_written() {
    let scene = Scene::new().await;
    let long = "x".repeat(256);
    let cases = [
        (json!("text"), "TQ002", "a JSON string, not an object"),
        (json!(null), "TQ002", "a JSON null, not an object"),
        (json!({"payload": 1}), "TQ002", "actor is missing"),
        (json!({"actor": null, "payload": 1}), "TQ002", "actor is missing"),
        (json!({"actor": "a"}), "TQ002", "payload is missing"),
        (json!({"actor": "", "payload": 1}), "TQ002", "actor is empty"),
        (json!({"actor": long, "payload": 1}), "TQ002", "actor has 256 bytes, more than 255"),
        (json!({"actor": "é".repeat(128), "payload": 1}), "TQ002", "actor has 256 bytes"),
        (json!({"actor": "a\nb", "payload": 1}), "TQ002", "actor contains a control character"),
        (json!({"actor": "a\u{7f}", "payload": 1}), "TQ002", "actor contains a control character"),
        (json!({"actor": 7, "payload": 1}), "TQ002", "actor is a JSON number, not a string"),
        (json!({"actor": "a", "payload": 1, "queue": ""}), "TQ002", "queue is empty"),
        (json!({"actor": "a", "payload": 1, "queue": ["q"]}), "TQ002", "queue is a JSON array"),
        (json!({"actor": "a", "payload": 1, "colour": "red"}), "TQ002", "unknown field \"colour\""),
        (json!({"actor": "a", "payload": 1, "id": "7"}), "TQ002", "id is not a UUID"),
        (json!({"actor": "a", "payload": 1, "id": 7}), "TQ002", "id is a JSON number"),
        (json!({"actor": "a", "payload": 1, "priority": 32768}), "TQ002", "priority is not between"),
        (json!({"actor": "a", "payload": 1, "priority": 1.5}), "TQ002", "priority is not a whole number"),
        (json!({"actor": "a", "payload": 1, "priority": "1"}), "TQ002", "priority is a JSON string"),
        (
            json!({"actor": "a", "payload": 1, "max_attempts": 0}),
            "TQ002",
            "max_attempts is not between 1 and 32767",
        ),
        (json!({"actor": "a", "payload": 1, "max_attempts": 32768}), "TQ002", "max_attempts is not between"),
        (
            json!({"actor": "a", "payload": 1, "payload_version": 0}),
            "TQ002",
            "payload_version is not between",
        ),
        (
            json!({"actor": "a", "payload": 1, "payload_version": 4_294_967_296_u64}),
            "TQ002",
            "payload_version",
        ),
        (
            json!({"actor": "a", "payload": 1, "scheduled_at": "infinity"}),
            "TQ002",
            "scheduled_at is not an ISO 8601",
        ),
        (
            json!({"actor": "a", "payload": 1, "scheduled_at": "tomorrow"}),
            "TQ002",
            "scheduled_at is not an ISO 8601",
        ),
        (json!({"actor": "a", "payload": 1, "scheduled_at": "2030-01-01T00:00:00"}), "TQ002", "with a zone"),
        (
            json!({"actor": "a", "payload": 1, "scheduled_at": "2030-02-30T00:00:00Z"}),
            "TQ002",
            "not a valid time",
        ),
        (
            json!({"actor": "a", "payload": 1, "scheduled_at": "10000-01-01T00:00:00Z"}),
            "TQ002",
            "years 1 and 9999",
        ),
        (
            json!({"actor": "a", "payload": 1, "scheduled_at": 1_700_000_000}),
            "TQ002",
            "scheduled_at is a JSON number",
        ),
        (json!({"actor": "a", "payload": 1, "delay": "-1 second"}), "TQ002", "delay is negative"),
        (json!({"actor": "a", "payload": 1, "delay": "soon"}), "TQ002", "delay is not a valid interval"),
        (
            json!({"actor": "a", "payload": 1, "delay": "40000 days"}),
            "TQ002",
            "delay is longer than 36600 days",
        ),
        (
            json!({"actor": "a", "payload": 1, "delay": "1e300 days"}),
            "TQ002",
            "delay is not a valid interval",
        ),
        (
            json!({"actor": "a", "payload": 1, "delay": "1 s", "scheduled_at": "2030-01-01T00:00:00Z"}),
            "TQ002",
            "exclude",
        ),
        (
            json!({"actor": "a", "payload": 1, "start_to_close": "0 s"}),
            "TQ002",
            "start_to_close is not positive",
        ),
        (
            json!({"actor": "a", "payload": 1, "start_to_close": 5}),
            "TQ002",
            "start_to_close is a JSON number",
        ),
        (
            json!({"actor": "a", "payload": 1, "schedule_to_close": "2020-01-01T00:00:00Z"}),
            "TQ002",
            "schedule_to_close is not after the scheduled time",
        ),
        (
            json!({"actor": "a", "payload": 1, "scheduled_at": "2031-01-01T00:00:00Z", "schedule_to_close": "2031-01-01T00:00:00Z"}),
            "TQ002",
            "schedule_to_close is not after the scheduled time",
        ),
        (json!({"actor": "a", "payload": 1, "tags": "x"}), "TQ002", "tags is a JSON string, not an array"),
        (json!({"actor": "a", "payload": 1, "tags": ["x", 1]}), "TQ002", "a tag is a JSON number"),
        (json!({"actor": "a", "payload": 1, "tags": [""]}), "TQ002", "a tag is empty"),
        (
            json!({"actor": "a", "payload": 1, "tags": vec!["x"; 65]}),
            "TQ002",
            "tags has 65 entries, more than 64",
        ),
        (
            json!({"actor": "a", "payload": 1, "metadata": [1]}),
            "TQ002",
            "metadata is a JSON array, not an object",
        ),
        (json!({"actor": "a", "payload": 1, "metadata": {"k": "x".repeat(65_536)}}), "TQ002", "metadata has"),
        (json!({"actor": "a", "payload": "x".repeat(1_048_576)}), "TQ002", "payload has 1048578 bytes"),
        (json!({"actor": "a", "payload": 1, "retry_policy": 3}), "TQ002", "retry_policy is a JSON number"),
        (json!({"actor": "a", "payload": 1, "retry_policy": {"bass": 1}}), "TQ002", "unknown field \"bass\""),
        (json!({"actor": "a", "payload": 1, "retry_policy": {"base": 1}}), "TQ002", "base is a JSON number"),
        (
            json!({"actor": "a", "payload": 1, "retry_policy": {"base": "x"}}),
            "TQ002",
            "base is not a valid interval",
        ),
        (json!({"actor": "a", "payload": 1, "retry_policy": {"cap": "367 days"}}), "TQ002", "cap is longer"),
        (
            json!({"actor": "a", "payload": 1, "retry_policy": {"factor": 0.5}}),
            "TQ002",
            "factor is not between",
        ),
        (
            json!({"actor": "a", "payload": 1, "retry_policy": {"jitter": 2}}),
            "TQ002",
            "jitter is not between",
        ),
        (json!({"actor": "a", "payload": 1, "notify": "loudly"}), "TQ002", "notify is neither"),
        (json!({"actor": "a", "payload": 1, "trace_context": ""}), "TQ002", "trace_context is empty"),
        (
            json!({"actor": "a", "payload": 1, "fairness_key": "t"}),
            "TQ002",
            "fairness_key needs a queue in round_robin",
        ),
        (json!({"actor": "a", "payload": 1, "unique_key": ""}), "TQ002", "unique_key is empty"),
        (json!({"actor": "a", "payload": 1, "unique_key": "k"}), "TQ003", "unique_key is not supported"),
        (json!({"actor": "a", "payload": 1, "identity_key": "k"}), "TQ003", "identity_key is not supported"),
    ];
    let good = json!({"actor": "a", "payload": 1});
    for (bad, code, message) in cases {
        let refused = refusal(&scene, &json!([good, bad, good])).await;
        assert_eq!(refused.0, code, "{bad}: {refused:?}");
        assert!(refused.1.starts_with("element 1: ") && refused.1.contains(message), "{bad}: {refused:?}");
        assert_eq!(refused.2.as_deref(), Some("1"), "{bad}: the detail is the index");
        let alone = scene.client.query("SELECT * FROM taskq.enqueue($1)", &[&bad]).await.unwrap_err();
        let alone = (raised(&alone).code().code(), raised(&alone).message(), raised(&alone).detail());
        assert_eq!(
            alone,
            (code, refused.1.replace("element 1", "element 0").as_str(), Some("0")),
            "{bad} alone"
        );
    }
    for whole in [json!({"actor": "a", "payload": 1}), json!(3), json!(null)] {
        assert_eq!(refusal(&scene, &whole).await.0, "TQ002");
    }
    assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.jobs").await, 0);
}

#[tokio::test]
async fn columns_are_refused_in_the_words_of_documents() {
    let scene = Scene::new().await;
    let good = ["taskq.make_id(now(), 1)", "'q'", "'a'", "'1'", "1", "0::int2", "20::int2", "true"];
    let cases = [
        (0, "NULL", "id is null"),
        (1, "''", "queue is empty"),
        (1, "repeat('x', 256)", "queue has 256 bytes, more than 255"),
        (1, "E'a\\tb'", "queue contains a control character"),
        (2, "NULL", "actor is missing"),
        (2, "E'\\x7f'", "actor contains a control character"),
        (2, "repeat('é', 128)", "actor has 256 bytes, more than 255"),
        (3, "NULL", "payload is missing"),
        (3, "to_jsonb(repeat('x', 1048576))", "payload has 1048578 bytes, more than 1048576"),
        (4, "0", "payload_version is not between 1 and 2147483647"),
        (6, "0::int2", "max_attempts is not between 1 and 32767"),
    ];
    for (at, bad, message) in cases {
        let mut columns = good;
        columns[at] = bad;
        let call = format!("SELECT taskq.enqueue_plain({})", columns.join(", "));
        let error = scene.client.query(call.as_str(), &[]).await.expect_err(&call);
        assert_eq!(raised(&error).code().code(), "TQ002", "{bad}: {error:?}");
        assert!(raised(&error).message().ends_with(message), "{bad}: {error:?}");
    }
    assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.jobs").await, 0);
    // What a document leaves out has its default, and only what is too large without its spaces is too large.
    let spaced = "(SELECT jsonb_agg(1) FROM generate_series(1, 500000))";
    for columns in [["NULL", "NULL", "NULL", "NULL"], [spaced, "1", "0::int2", "20::int2"]] {
        let [payload, rest @ ..] = columns;
        let payload = if payload == "NULL" { "'1'" } else { payload };
        let call = format!(
            "SELECT taskq.enqueue_plain({}, {}, 'a', {payload}, {}, NULL)",
            good[0],
            "NULL",
            rest.join(", ")
        );
        assert_eq!(scene.value::<String>(&call).await, "created");
    }
    let defaults = "SELECT count(*) FROM taskq.jobs WHERE queue = 'default' AND (payload_version, priority, max_attempts) = (1, 0, 20)";
    assert_eq!(scene.value::<i64>(defaults).await, 2);
}

#[tokio::test]
async fn an_id_that_is_taken_is_answered_with_the_status_of_its_job() {
    let scene = Scene::new().await;
    let id = Uuid::now_v7();
    let call = format!("SELECT taskq.enqueue_plain('{id}', 'q', 'a', '1', 1, 0::int2, 20::int2, true)");
    for answer in ["created", "pending"] {
        assert_eq!(scene.value::<String>(&call).await, answer);
    }
    scene.run("UPDATE taskq.jobs SET status = 'scheduled'").await;
    assert_eq!(scene.value::<String>(&call).await, "scheduled");
    assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.jobs").await, 1);
}

/// Many jobs are first written as if no id were taken.
#[tokio::test]
async fn among_many_documents_ids_that_are_taken_are_answered() {
    let scene = Scene::new().await;
    let id: Uuid = scene
        .value("SELECT id FROM taskq.enqueue('{\"actor\": \"there\", \"payload\": 0, \"delay\": \"1 h\"}')")
        .await;
    let ids: Vec<Uuid> = (0..300).map(|_| Uuid::now_v7()).collect();
    let id_of = |n: usize| match n {
        200 => id,
        250 => ids[50],
        _ => ids[299 - n],
    };
    let jobs: Vec<Value> = (0..300).map(|n| json!({"id": id_of(n), "actor": "a", "payload": n})).collect();
    let query = "SELECT id, outcome, status FROM taskq.enqueue_many($1)";
    for round in 0..2 {
        let rows = scene.client.query(query, &[&Value::from(jobs.clone())]).await.unwrap();
        assert_eq!(rows.len(), 300);
        for (n, row) in rows.iter().enumerate() {
            let is_there = round == 1 || n == 200 || n == 250 || (id_of(n) == ids[50] && n > 249);
            let answer: (Uuid, &str, &str) = (row.get(0), row.get(1), row.get(2));
            let outcome = if is_there { "existing" } else { "created" };
            let status = if n == 200 { "scheduled" } else { "pending" };
            assert_eq!(answer, (id_of(n), outcome, status), "{n} in round {round}");
        }
        assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.jobs").await, 299);
    }
    let first = scene
        .client
        .query_one("SELECT payload::int8 FROM taskq.jobs WHERE id = $1", &[&ids[50]])
        .await
        .unwrap();
    assert_eq!(first.get::<_, i64>(0), 249, "of one id, the first in the call is written");
}

#[tokio::test]
async fn a_nul_is_refused_by_the_server_itself() {
    let scene = Scene::new().await;
    let error = scene
        .client
        .batch_execute(r#"SELECT * FROM taskq.enqueue('{"actor": "a", "payload": "a\u0000b"}')"#)
        .await
        .unwrap_err();
    assert_eq!(raised(&error).code().code(), "22P05");
    assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.jobs").await, 0);
}

/// What is accepted here must not make every failure of the job unsettleable later.
#[tokio::test]
async fn a_number_too_small_for_a_retry_delay_is_refused() {
    let scene = Scene::new().await;
    let call =
        r#"SELECT * FROM taskq.enqueue('{"actor": "a", "payload": 1, "retry_policy": {"jitter": 1e-400}}')"#;
    let error = scene.client.batch_execute(call).await.unwrap_err();
    assert_eq!(raised(&error).code().code(), "TQ002");
    assert!(raised(&error).message().contains("jitter is out of range"), "{}", raised(&error).message());
}

#[tokio::test]
async fn the_bounds_themselves_are_accepted() {
    let scene = Scene::new().await;
    let name = "x".repeat(255);
    let jobs = json!([
        {"actor": name, "queue": name, "payload": null, "tags": vec![name.as_str(); 64], "priority": -32768},
        {"actor": "a", "payload": "x".repeat(1_048_574), "max_attempts": 32767, "payload_version": 2_147_483_647},
        {"actor": "a", "payload": {}, "scheduled_at": "9999-12-31T23:59:59.999999Z", "notify": "none"},
        {"actor": "a", "payload": [], "scheduled_at": "0001-01-01T00:00:00+00:00"},
        {"actor": "a", "payload": 1, "delay": "36600 days"},
        {"actor": "a", "payload": 1, "queue": null, "id": null, "delay": null, "metadata": null, "tags": null,
         "retry_policy": null, "unique_key": null, "keep": null, "priority": null, "max_attempts": null},
        {"actor": "a", "payload": 1, "retry_policy": {}, "max_attempts": 3.0},
    ]);
    let rows =
        scene.client.query("SELECT outcome, status FROM taskq.enqueue_many($1)", &[&jobs]).await.unwrap();
    let statuses: Vec<&str> = rows.iter().map(|row| row.get("status")).collect();
    assert_eq!(statuses, ["pending", "pending", "scheduled", "pending", "scheduled", "pending", "pending"]);
    assert!(rows.iter().all(|row| row.get::<_, &str>("outcome") == "created"));
    let defaults = "SELECT count(*) FROM taskq.jobs WHERE queue = 'default' AND max_attempts = 20 AND priority = 0
         AND tags IS NULL AND metadata IS NULL AND retry_policy IS NULL AND payload = '1' AND status = 'pending'";
    assert_eq!(scene.value::<i64>(defaults).await, 1);
}

#[tokio::test]
async fn answers_keep_the_order_of_the_documents() {
    let scene = Scene::new().await;
    let ids: Vec<Uuid> = (0..50).map(|_| Uuid::now_v7()).collect();
    let document = |id: &Uuid| json!({"actor": "a", "payload": 1, "id": id});
    let first: Vec<Value> = ids.iter().rev().step_by(2).map(document).collect();
    let all: Vec<Value> = ids.iter().rev().chain([&ids[0]]).map(document).collect();
    for (jobs, created) in [(first, 25), (all, 25)] {
        let rows = scene
            .client
            .query("SELECT id, outcome FROM taskq.enqueue_many($1)", &[&Value::from(jobs.clone())])
            .await
            .unwrap();
        let answered: Vec<Value> = rows.iter().map(|row| json!(row.get::<_, Uuid>(0))).collect();
        let asked: Vec<Value> = jobs.iter().map(|job| job["id"].clone()).collect();
        assert_eq!(answered, asked);
        assert_eq!(rows.iter().filter(|row| row.get::<_, &str>(1) == "created").count(), created);
    }
}

#[tokio::test]
async fn ids_made_by_the_server_grow_within_a_call_and_say_their_time() {
    let scene = Scene::new().await;
    scene.enqueue(10_000, 1).await;
    let query =
        "SELECT count(*) FROM (SELECT id > lag(id) OVER (ORDER BY (payload)::int) AS grows FROM taskq.jobs) g
         WHERE grows IS FALSE";
    assert_eq!(scene.value::<i64>(query).await, 0);
    let id: Uuid = scene.value("SELECT id FROM taskq.jobs ORDER BY id LIMIT 1").await;
    assert_eq!(id.get_version_num(), 7);
    let made: f64 = scene
        .value("SELECT extract(epoch FROM created_at)::float8 FROM taskq.jobs ORDER BY id LIMIT 1")
        .await;
    let (seconds, nanos) = id.get_timestamp().unwrap().to_unix();
    #[expect(clippy::cast_precision_loss, reason = "seconds of this century are exact")]
    let stamped = seconds as f64 + f64::from(nanos) / 1e9;
    assert!((stamped - made).abs() < 0.01, "{stamped} {made}");
}

#[tokio::test]
async fn a_repetition_that_runs_into_the_first_call_waits_for_it_and_finds_its_job() {
    let scene = Scene::new().await;
    let other = scene.session().await;
    let job = json!([{"actor": "a", "payload": 1, "id": Uuid::now_v7()}]);
    scene.run("BEGIN").await;
    scene.client.query("SELECT * FROM taskq.enqueue_many($1)", &[&job]).await.unwrap();
    let pid = super::scene::backend_pid(&scene.client).await;
    let observer = scene.session().await;
    let repeated = tokio::spawn(async move {
        other.query_one("SELECT outcome, status FROM taskq.enqueue_many($1)", &[&job]).await.unwrap()
    });
    super::scene::until_blocked_by(&observer, pid).await;
    scene.run("COMMIT").await;
    let row = repeated.await.unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("existing", "pending"));
}

#[tokio::test]
async fn a_hostile_search_path_changes_nothing() {
    let scene = Scene::new().await;
    let worker = scene.worker(1).await;
    // Tables, functions and an operator that would be found first.
    scene
        .run(
            "CREATE SCHEMA decoy;
             CREATE TABLE decoy.jobs (id int); CREATE TABLE decoy.workers (id int);
             CREATE FUNCTION decoy.jsonb_typeof(jsonb) RETURNS text LANGUAGE sql AS $$ SELECT 'decoy' $$;
             CREATE FUNCTION decoy.array_length(anyarray) RETURNS int LANGUAGE sql AS $$ SELECT 0 $$;
             CREATE FUNCTION decoy.never(text, text) RETURNS boolean LANGUAGE sql AS $$ SELECT false $$;
             CREATE OPERATOR decoy.= (LEFTARG = text, RIGHTARG = text, FUNCTION = decoy.never);
             SET search_path = decoy, pg_catalog",
        )
        .await;
    scene.enqueue(3, 1).await;
    let claimed = super::scene::claim(&scene.client, worker, 2).await.unwrap();
    assert_eq!(claimed.len(), 2);
    let settled =
        super::scene::settle(&scene.client, worker, &claimed, &json!({"outcome": "succeeded"})).await;
    assert!(settled.iter().all(|verdict| verdict.accepted));
}
