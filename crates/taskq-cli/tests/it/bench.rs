//! `taskq bench`, in the smallest sizes: the shape of what it writes, and what it refuses. No figure is judged.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use taskq_testkit::{ChildProcess, Signal, wait_for};

use crate::harness::{Database, Ran, WITHIN, run, taskq};

/// Runs a benchmark on the database of a test and returns its report.
fn report(db: &Database, arguments: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    let ran = run(db.taskq(["bench"]).args(arguments).arg("--json").arg(&path));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.stdout.starts_with("PostgreSQL ") && ran.stdout.contains("CASE "), "{ran:?}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(report["bench"], arguments[0]);
    for setting in ["fsync", "synchronous_commit", "shared_buffers", "max_wal_size", "jit"] {
        assert!(report["server"]["settings"][setting].is_string(), "{setting}: {report}");
    }
    assert!(report["machine"]["cores"].as_u64() >= Some(1), "{report}");
    report
}

fn row<'a>(report: &'a Value, case: &str) -> &'a Value {
    let rows = report["rows"].as_array().unwrap();
    rows.iter().find(|row| row["case"] == case).unwrap_or_else(|| panic!("no row {case:?} in {report}"))
}

fn positive(row: &Value, fields: &[&str]) {
    for field in fields {
        assert!(row[*field].as_f64() > Some(0.0), "{field} in {row}");
    }
}

async fn schemas(db: &Database) -> i64 {
    let query = "SELECT count(*) FROM pg_namespace WHERE nspname = 'taskq_bench'";
    db.client.query_one(query, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_drain_tells_rates_ratios_and_what_they_cost() {
    let db = Database::new().await;
    let report =
        report(&db, &["drain", "--jobs", "300", "--repeats", "1", "--ready", "400", "--actors", "3"]);
    let last = report["rows"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["case"], &last["jobs"]), (&json!("worker"), &json!(300)));
    positive(
        last,
        &["jobs_per_s", "ratio_to_sql_loop", "wal_bytes_per_job", "worker_cpu_s", "worker_peak_bytes"],
    );
    assert!(last["server_cpu_s"].is_f64(), "the server of a test runs on this machine: {last}");
    positive(row(&report, "sql loop"), &["jobs_per_s", "wal_bytes_per_job"]);
    positive(row(&report, "client loop"), &["jobs_per_s", "ratio_to_sql_loop"]);
    positive(row(&report, "function loop"), &["jobs_per_s", "ratio_to_sql_loop"]);
    let deep = &report["rows"][1];
    assert_eq!(deep["jobs"], 400);
    positive(deep, &["ratio_to_shallow", "ratio_to_shallow_of_first"]);
    assert_eq!(schemas(&db).await, 0, "the schema is gone");
}

#[tokio::test]
async fn modes_and_handlers_are_compared_with_each_other() {
    let db = Database::new().await;
    let report = report(&db, &["drain", "--jobs", "200", "--repeats", "1", "--modes", "--handlers"]);
    for case in ["worker, direct mode", "worker, pooled mode", "worker, through pgbouncer"] {
        positive(row(&report, case), &["jobs_per_s", "ratio_to_direct", "ratio_to_direct_median"]);
    }
    assert_eq!(row(&report, "worker, direct mode")["ratio_to_direct"], 1.0);
    positive(row(&report, "worker, untyped handler"), &["worker_cpu_us_per_job"]);
    let typed = row(&report, "worker, typed handler");
    positive(typed, &["worker_cpu_us_per_job"]);
    assert!(typed["cpu_us_over_untyped"].is_number(), "{typed}");
    assert_eq!(report["rows"].as_array().unwrap().last().unwrap()["case"], "worker");
}

#[tokio::test]
async fn depths_are_compared_in_every_state_that_is_asked_for() {
    let db = Database::new().await;
    let states = ["--states", "planned_empty", "analyzed", "actors", "--mode", "strict_fifo"];
    let report = report(&db, &[&["depth", "--depths", "300", "100", "--rounds", "2"][..], &states].concat());
    let rows = report["rows"].as_array().unwrap();
    let found: Vec<_> =
        rows.iter().map(|row| (row["case"].as_str().unwrap(), row["ready"].as_u64())).collect();
    let at = |case, ready| (case, Some(ready));
    let expected = [
        at("planned_empty", 100),
        at("planned_empty", 300),
        at("analyzed", 100),
        at("analyzed", 300),
        at("actors: 8", 100),
        at("actors: 8", 300),
        at("actors: 48", 100),
        at("actors: 48", 300),
        ("worst of all", None),
    ];
    assert_eq!(found, expected);
    for row in rows {
        positive(
            row,
            &["p50_ms", "p95_ms", "buffers", "ratio_p50_to_shallowest", "ratio_buffers_to_shallowest"],
        );
    }
    assert_eq!(rows[0]["ratio_p50_to_shallowest"], 1.0);
    positive(&rows[7], &["ratio_p50_to_8_actors"]);
    let left = "SELECT count(*) FROM pg_namespace WHERE starts_with(nspname, 'taskq_bench')";
    assert_eq!(db.client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0, "all schemas are gone");
}

#[tokio::test]
async fn many_cohorts_are_compared_with_few() {
    let db = Database::new().await;
    let only = ["--mode", "round_robin", "--states", "cohorts"];
    let report = report(&db, &[&["depth", "--depths", "400", "--rounds", "2"][..], &only].concat());
    positive(row(&report, "cohorts: 10"), &["p50_ms", "buffers"]);
    positive(row(&report, "cohorts: 10000"), &["ratio_p50_to_10_cohorts", "ratio_buffers_to_10_cohorts"]);
}

#[tokio::test]
async fn shapes_of_old_are_measured_beside_the_claim() {
    let db = Database::new().await;
    let only = ["--mode", "strict_fifo", "--states", "analyzed", "--experiments"];
    let report = report(&db, &[&["depth", "--depths", "150", "--rounds", "1"][..], &only].concat());
    for case in ["claim", "shipped", "v1", "v2", "v3", "v1b"] {
        let row = row(&report, case);
        assert_eq!((&row["claimed"], &row["same_jobs"]), (&json!(50), &json!(true)), "{row}");
        positive(row, &["ratio_p50_to_v1b", "ratio_buffers_to_v1b"]);
    }
}

#[tokio::test]
async fn latencies_are_told_of_quiet_and_of_random_arrivals() {
    let db = Database::new().await;
    let report = report(&db, &["latency", "--jobs", "5", "--rate", "50", "--seconds", "1"]);
    let (alone, busy) = (row(&report, "one at a time"), row(&report, "at random times"));
    assert_eq!((&alone["jobs"], &busy["jobs"]), (&json!(5), &json!(50)));
    for row in [alone, busy] {
        positive(row, &["p50_ms", "p95_ms", "p99_ms", "max_ms", "enqueue_p50_ms"]);
        assert!(row["max_ms"].as_f64() >= row["p50_ms"].as_f64(), "{row}");
    }
    positive(busy, &["rate_per_s"]);
}

#[tokio::test]
async fn enqueues_are_compared_with_plain_writes() {
    let db = Database::new().await;
    let report = report(
        &db,
        &[
            "enqueue",
            "--calls",
            "20",
            "--callers",
            "3",
            "--batch",
            "50",
            "--transactions",
            "12",
            "--repeats",
            "1",
        ],
    );
    let rows = report["rows"].as_array().unwrap();
    let cases: Vec<_> =
        rows.iter().map(|row| (row["part"].as_str().unwrap(), row["case"].as_str().unwrap())).collect();
    assert_eq!(
        cases,
        [
            ("one at a time", "insert"),
            ("one at a time", "function"),
            ("one at a time", "client"),
            ("3 callers", "insert"),
            ("3 callers", "insert, a connection each"),
            ("3 callers", "client"),
            ("50 in one call", "copy"),
            ("50 in one call", "function"),
            ("50 in one call", "client"),
            ("3 sessions, transactions", "insert"),
            ("3 sessions, transactions", "in_tx, notify = none"),
            ("3 sessions, transactions", "in_tx"),
        ]
    );
    for row in rows {
        positive(row, &["jobs_per_s", "jobs_per_s_median", "p50_ms"]);
        positive(row, &[if row["part"] == "50 in one call" { "ratio_to_copy" } else { "ratio_to_insert" }]);
    }
}

#[tokio::test]
async fn tables_with_different_settings_are_compared_while_jobs_come_and_go() {
    let db = Database::new().await;
    let report =
        report(&db, &["churn", "--rate", "10", "--seconds", "4", "--ready", "10", "--hot-seconds", "1"]);
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.len() > 5 && rows[0]["case"] == "shipped", "{report}");
    for row in rows {
        positive(row, &["payload_bytes", "jobs", "jobs_per_s", "heap_bytes", "index_bytes", "claim_p95_ms"]);
        assert!(row["dead_rows_max"].is_u64() && row["hot_share"].is_number(), "{row}");
    }
    assert_eq!(schemas(&db).await, 0);
}

#[tokio::test]
async fn processes_waits_and_idle_workers_are_measured() {
    let db = Database::new().await;
    let small = [
        "scale",
        "--jobs",
        "200",
        "--slots",
        "4",
        "--processes",
        "1",
        "2",
        "--waits",
        "40",
        "--repeats",
        "1",
        "--idle-slots",
        "7",
        "--idle-seconds",
        "1",
    ];
    let report = report(&db, &small);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!((&rows[0]["processes"], &rows[1]["processes"]), (&json!(1), &json!(2)));
    positive(&rows[1], &["jobs_per_s", "ratio_to_first"]);
    positive(&rows[2], &["jobs_per_s"]);
    positive(&rows[3], &["jobs_per_s", "ratio_to_bare_tasks"]);
    let idle: Vec<_> =
        rows[4..].iter().map(|row| (row["case"].as_str().unwrap(), row["slots"].as_u64().unwrap())).collect();
    assert_eq!(idle, [("leader", 7), ("worker", 7)]);
    for row in &rows[4..] {
        positive(row, &["connections"]);
        assert!(
            row["statements_per_s"].is_null(),
            "no extension is made in a database that is not the benchmark's: {row}"
        );
    }
}

#[tokio::test]
async fn a_benchmark_that_is_interrupted_leaves_nothing() {
    let db = Database::new().await;
    let mut drain = ChildProcess::spawn(&mut db.taskq(["bench", "drain", "--jobs", "50000000"])).unwrap();
    let begun = async || {
        // There is no such table at first.
        let found = db.client.query_one("SELECT EXISTS (SELECT FROM taskq_bench.jobs)", &[]).await;
        found.is_ok_and(|row| row.get(0)).then_some(())
    };
    wait_for("there are jobs to drain", WITHIN, begun).await;
    drain.signal(Signal::INT).unwrap();
    assert_eq!(drain.wait(WITHIN).await.code(), Some(1));
    let said = drain.stderr();
    assert!(said.iter().any(|line| line.starts_with("error: interrupted")), "{said:?}");
    assert_eq!(schemas(&db).await, 0, "the schema is gone");
}

fn bench(arguments: &[&str]) -> Command {
    let mut command = taskq();
    // Nothing that is refused needs a server.
    command.arg("bench").args(arguments).env("TASKQ_PG", "/nonexistent");
    command
}

fn refused(arguments: &[&str], part: &str) {
    run(&mut bench(arguments)).refused(2, &[part]);
}

#[test]
fn options_out_of_bounds_are_refused() {
    refused(&["drain", "--jobs", "0"], "--jobs");
    refused(&["drain", "--slots", "10001"], "--slots");
    refused(&["drain", "--slots", "32", "--processes", "5"], "cannot be shared evenly");
    refused(&["drain", "--repeats", "0"], "--repeats");
    refused(&["latency", "--rate", "0"], "--rate");
    refused(&["depth", "--states", "cohorts", "--mode", "strict_fifo"], "has no cohorts");
    refused(&["depth", "--depths", "10"], "--depths");
    refused(&["enqueue", "--callers", "0"], "--callers");
    refused(&["scale", "--slots", "4", "--processes", "1", "3"], "shared evenly by 3 processes");
    refused(&["fly"], "fly");
    refused(&["drain", "--json", "/nonexistent/report.json"], "--json: cannot write");
}

#[test]
fn a_server_that_cannot_be_had_is_a_failure_and_leaves_no_report() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    let json = ["drain", "--json", path.to_str().unwrap()];
    run(&mut bench(&json)).refused(1, &["/nonexistent"]);
    run(bench(&json).args(["--dsn", "postgres://127.0.0.1:1/x"])).refused(4, &[]);
    assert!(!Path::new(&path).exists());
}

#[tokio::test]
async fn a_schema_that_is_not_a_benchmarks_own_is_not_touched() {
    let db = Database::new().await;
    let drain = |schema: &str| -> Ran {
        run(db
            .taskq(["bench", "drain", "--jobs", "1", "--repeats", "1", "--schema", schema, "--keep"])
            .env("TASKQ_LOG", "off"))
    };
    drain("taskq").refused(2, &["exists and no benchmark made it"]);
    assert_eq!(db.jobs().await, 0, "the schema is still there");

    let kept = drain("scratch");
    assert_eq!(kept.code, Some(0), "{kept:?}");
    assert!(kept.stdout.contains("TASKQ_SCHEMA_NAME='scratch'"), "{kept:?}");
    let count = "SELECT count(*) FROM scratch.jobs WHERE status = 'succeeded'";
    assert_eq!(db.client.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 1);
    let enqueue = r#"SELECT scratch.enqueue('{"actor": "mine", "payload": 1}')"#;
    db.client.query(enqueue, &[]).await.unwrap();
    drain("scratch").refused(2, &["now holds other jobs"]);
    db.client.execute("DELETE FROM scratch.jobs WHERE actor = 'mine'", &[]).await.unwrap();
    assert_eq!(drain("scratch").code, Some(0));
}
