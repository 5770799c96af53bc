//! What an enqueue costs the server: buffers and log, counted.

use serde_json::{Value, json};
use tokio_postgres::Client;

use super::mutant::Mutant;
use super::scene::{Scene, raised};

/// The most bytes of log that one job may take which is written alone; its commit takes some 50 more.
const ALONE: i64 = 420;
/// The most bytes of log that one job may take among many.
const AMONG_MANY: i64 = 370;
/// The most buffers that an enqueue of one job may touch in a session that has enqueued before.
const WARM: i64 = 16;
/// The most buffers that the first enqueue of a session may touch, the catalog's included.
const COLD: i64 = 1_200;

const PLAIN: &str =
    "SELECT taskq.enqueue_plain(taskq.make_id(now(), 1), 'q', 'mail.welcome', '{\"user_id\": 42}', 1,
    0::int2, 20::int2, true)";
const ONE: &str = "SELECT * FROM taskq.enqueue('{\"queue\": \"q\", \"actor\": \"mail.welcome\", \"payload\": {\"user_id\": 42}}')";
const MANY: &str = "SELECT * FROM taskq.enqueue_many((
    SELECT jsonb_agg(jsonb_build_object('queue', 'q', 'actor', 'mail.welcome', 'payload', jsonb_build_object('user_id', n)))
    FROM generate_series(1, 1000) n))";
const STAGE: &str = "SELECT taskq.prepare_staging(); BEGIN;
    INSERT INTO pg_temp.taskq_staged (nth, id, queue, actor, payload, payload_version, priority, max_attempts)
    SELECT n, taskq.make_id(now(), n), 'q', 'mail.welcome', jsonb_build_object('user_id', n), 1, 0, 20
    FROM generate_series(1, 1000) n";
const STAGED: &str = "SELECT * FROM taskq.enqueue_staged(1000)";

/// What a statement cost.
#[derive(Clone, Copy, Debug)]
struct Cost {
    buffers: i64,
    wal_bytes: i64,
}

impl Cost {
    async fn of(client: &Client, statement: &str) -> Self {
        let query = format!("EXPLAIN (ANALYZE, BUFFERS, WAL, TIMING OFF, FORMAT JSON) {statement}");
        let plan: Value = client.query_one(query.as_str(), &[]).await.unwrap().get(0);
        let number =
            |name: &str| plan[0]["Plan"][name].as_i64().unwrap_or_else(|| panic!("no {name} in {plan}"));
        let buffers = number("Shared Hit Blocks") + number("Shared Read Blocks");
        Self { buffers, wal_bytes: number("WAL Bytes") }
    }

    /// The least of several, in a session that has done it before: now and then the catalog is read again, a page is split, or
    /// a new one is begun.
    async fn least(client: &Client, statement: &str) -> Self {
        let mut least = Self::of(client, statement).await;
        for _ in 0..5 {
            let next = Self::of(client, statement).await;
            least.buffers = least.buffers.min(next.buffers);
            least.wal_bytes = least.wal_bytes.min(next.wal_bytes);
        }
        least
    }
}

/// One call of `enqueue_staged` with 1,000 jobs.
async fn staged(client: &Client) -> Cost {
    let mut cost = None;
    // The first one makes the plans.
    for _ in 0..2 {
        client.batch_execute(STAGE).await.unwrap();
        cost = Some(Cost::of(client, STAGED).await);
        client.batch_execute("COMMIT").await.unwrap();
    }
    cost.unwrap()
}

#[tokio::test]
async fn one_job_alone_costs_little() {
    let scene = Scene::new().await;
    for call in [PLAIN, ONE] {
        let cost = Cost::least(&scene.client, call).await;
        assert!(cost.buffers <= WARM && cost.wal_bytes <= ALONE, "{cost:?} for {call}");
        let mut cold = Cost::of(&scene.session().await, call).await.buffers;
        for _ in 0..2 {
            cold = cold.min(Cost::of(&scene.session().await, call).await.buffers);
        }
        assert!(cold <= COLD, "{cold} buffers for the first {call}");
    }
}

#[tokio::test]
async fn one_job_among_many_costs_less() {
    let scene = Scene::new().await;
    for cost in [Cost::least(&scene.client, MANY).await, staged(&scene.client).await] {
        assert!(cost.wal_bytes <= 1_000 * AMONG_MANY && cost.buffers <= 7 * 1_000, "{cost:?}");
    }
}

/// What looks for each id first writes a mark of its own behind each row.
#[tokio::test]
async fn the_oracle_sees_each_id_looked_for() {
    let scene = Scene::new().await;
    Mutant::of("enqueue_many").replace("cardinality(ids) >= 100", "false").apply(&scene).await;
    let cost = Cost::least(&scene.client, MANY).await;
    assert!(cost.wal_bytes > 1_000 * AMONG_MANY && cost.buffers > 7 * 1_000, "{cost:?}");
}

#[tokio::test]
async fn the_oracle_sees_one_index_more() {
    let scene = Scene::new().await;
    scene.run("CREATE INDEX ON taskq.jobs (actor)").await;
    for call in [PLAIN, ONE] {
        let cost = Cost::least(&scene.client, call).await;
        assert!(cost.wal_bytes > ALONE, "{cost:?} for {call}");
    }
}

/// A session that enqueues once, as `psql` does, must not have to plan all that could be asked for.
#[tokio::test]
async fn the_oracle_sees_the_long_way_round() {
    let scene = Scene::new().await;
    Mutant::of("enqueue")
        .replace("IF \"taskq\".obviously_valid(job) THEN", "IF false THEN")
        .apply(&scene)
        .await;
    Mutant::of("check_jobs")
        .replace("\"taskq\".obviously_valid(d.job) IS NOT TRUE AND", "")
        .apply(&scene)
        .await;
    let cold = Cost::of(&scene.session().await, ONE).await;
    assert!(cold.buffers > COLD, "{cold:?}");
}

/// A number of 16 bytes can be more than a hundred thousand digits.
#[tokio::test]
async fn a_staged_payload_is_refused_for_its_text_however_short_it_is_stored() {
    let numbers = ["1e131071"; 9].join(", ");
    let stage = format!(
        "SELECT taskq.prepare_staging(); BEGIN;
         INSERT INTO pg_temp.taskq_staged (nth, id, queue, actor, payload, payload_version, priority, max_attempts)
         VALUES (1, taskq.make_id(now(), 1), 'q', 'a', '[{numbers}]', 1, 0, 20);
         SELECT taskq.enqueue_staged(1); COMMIT"
    );
    let scene = Scene::new().await;
    let error = scene.session().await.batch_execute(&stage).await.unwrap_err();
    assert_eq!(raised(&error).code().code(), "TQ002", "{error:?}");
    let short = "pg_column_size(s.payload) <= 100";
    Mutant::of("enqueue_staged").replace(short, "pg_column_size(s.payload) <= 1000").apply(&scene).await;
    scene.session().await.batch_execute(&stage).await.unwrap();
}

/// In the refusal of one bad document, a bound of every part is reached; here the parts are counted.
#[tokio::test]
async fn documents_of_common_fields_are_known_to_be_valid_at_sight() {
    let scene = Scene::new().await;
    let common = json!([
        {"actor": "a", "payload": null},
        {"actor": "a", "payload": {"n": 1}, "queue": "q", "notify": "none"},
        {"actor": "é".repeat(127), "payload": [], "id": uuid::Uuid::now_v7(), "notify": "default"},
        {"actor": "a", "payload": 1, "priority": -32768, "max_attempts": 32767, "payload_version": 2_147_483_647},
        {"actor": "a", "payload": 1, "priority": 32767, "max_attempts": 1, "payload_version": 1},
    ]);
    let query = "SELECT count(*) FROM jsonb_array_elements($1) d(job) WHERE taskq.obviously_valid(d.job)";
    let count: i64 = scene.client.query_one(query, &[&common]).await.unwrap().get(0);
    assert_eq!(count, 5);
}

/// Documents with every pair of a list of fields and values, good and bad.
fn pairs() -> Value {
    let name = |bytes: usize| json!("x".repeat(bytes));
    let scalars = || {
        vec![
            json!(null),
            json!(true),
            json!(0),
            json!(7.5),
            json!(""),
            json!("a"),
            json!([]),
            json!({}),
            json!(["a"]),
        ]
    };
    let mut values: Vec<(&str, Value)> = Vec::new();
    for field in [
        "id",
        "queue",
        "actor",
        "payload",
        "payload_version",
        "priority",
        "max_attempts",
        "notify",
        "scheduled_at",
        "delay",
        "schedule_to_close",
        "start_to_close",
        "retry_policy",
        "tags",
        "metadata",
        "trace_context",
        "idempotency_key",
        "on_finished",
        "fairness_key",
        "identity_key",
        "unique_key",
        "keep",
        "colour",
        "",
    ] {
        values.extend(scalars().into_iter().map(|value| (field, value)));
    }
    for field in ["queue", "actor"] {
        let more = [
            name(255),
            name(256),
            json!("é".repeat(128)),
            json!("a\u{1}"),
            json!("a\u{7f}"),
            json!("a\u{80}b"),
            json!("\\"),
        ];
        values.extend(more.map(|value| (field, value)));
    }
    for field in ["payload_version", "priority", "max_attempts"] {
        for number in
            [1_i64, -1, 32767, 32768, -32768, -32769, 2_147_483_647, 2_147_483_648, i64::MAX, i64::MIN]
        {
            values.push((field, json!(number)));
        }
        values.extend([json!(3.0), json!(1e300), json!("3")].map(|value| (field, value)));
    }
    let id = "018f0000-0000-7000-8000-0000000000ff";
    for text in [
        id,
        &id.to_uppercase(),
        &id[1..],
        &format!("{id}0"),
        &id.replace('8', "g"),
        &id.replace('0', "-"),
        "------------------------------------",
    ] {
        values.push(("id", json!(text)));
    }
    values.extend(
        [json!("none"), json!("default"), json!("None"), json!(["none"])].map(|value| ("notify", value)),
    );
    let mut documents =
        vec![json!(null), json!(1), json!("a"), json!([]), json!({}), json!([{"actor": "a", "payload": 1}])];
    for (at, (field, value)) in values.iter().enumerate() {
        for (other, second) in &values[at..] {
            let mut document = json!({"actor": "a", "payload": 1});
            document[field] = value.clone();
            document[other] = second.clone();
            documents.push(document);
        }
    }
    Value::from(documents)
}

/// Validation has one place; what passes without it must be what it would let pass.
#[tokio::test]
async fn what_is_known_to_be_valid_at_sight_is_valid() {
    let scene = Scene::new().await;
    let query = "SELECT count(*), count(*) FILTER (WHERE s.valid), count(*) FILTER (WHERE p.problem IS NULL),
            (array_agg(d.job) FILTER (WHERE s.valid AND p.problem IS NOT NULL))[1]
        FROM jsonb_array_elements($1) d(job)
        CROSS JOIN LATERAL (SELECT taskq.obviously_valid(d.job) AS valid) s
        CROSS JOIN LATERAL taskq.document_problem(d.job, now()) p";
    let documents = pairs();
    let row = scene.client.query_one(query, &[&documents]).await.unwrap();
    let (all, at_sight, valid): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    assert_eq!(row.get::<_, Option<Value>>(3), None, "it has a problem and was let pass");
    assert!(all > 30_000 && at_sight > 100 && valid > at_sight, "{all} {at_sight} {valid}");
}
