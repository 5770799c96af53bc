//! The doctor: what makes each check fire, and that it is quiet otherwise.

mod pooler;

use std::time::Duration;

use taskq_core::store::{SchemaProblem, StoreError};
use taskq_postgres::{Diagnosis, Doctor, Limits, Migrator, SchemaName, Verdict};
use taskq_testkit::{Options, PgSource, PrivateServer, TestDatabase, wait_until};

use crate::database::{PATIENCE, client, empty, migrated};

const CHECKS: [&str; 16] = [
    "schema",
    "grants",
    "settings",
    "isolation",
    "pooler",
    "clock",
    "autovacuum",
    "dead_rows",
    "transactions",
    "prepared",
    "slots",
    "sweeps",
    "archive",
    "unserved",
    "events",
    "hooks",
];

fn doctor(dsn: &str) -> Doctor {
    Doctor::new(dsn, SchemaName::default()).unwrap()
}

async fn examine(doctor: &Doctor) -> Vec<Diagnosis> {
    let found = doctor.examine().await.unwrap();
    for diagnosis in &found {
        let Diagnosis { message, remedy, verdict, .. } = diagnosis;
        assert!(!message.contains('\n'), "{message}");
        assert!(remedy.as_ref().is_none_or(|remedy| !remedy.contains('\n')), "{remedy:?}");
        assert_eq!(
            *verdict == Verdict::Problem,
            remedy.is_some() && *verdict != Verdict::Unknown,
            "{diagnosis:?}"
        );
    }
    found
}

/// The one problem of a check, and that no other check has one.
#[track_caller]
fn only_problem(found: &[Diagnosis], check: &str) -> Diagnosis {
    let problems: Vec<_> = found.iter().filter(|it| it.verdict == Verdict::Problem).collect();
    match problems.as_slice() {
        [problem] if problem.check == check => (*problem).clone(),
        other => panic!("not one problem of {check} but {other:?}"),
    }
}

#[track_caller]
fn assert_quiet(found: &[Diagnosis]) {
    let loud: Vec<_> = found.iter().filter(|it| it.verdict != Verdict::Ok).collect();
    assert!(loud.is_empty(), "{loud:?}");
}

/// A database in which something is wrong, and what the doctor says; that it is quiet when it is put right.
async fn fires(check: &str, wrong: &str, right: &str) -> Diagnosis {
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    admin.batch_execute(wrong).await.unwrap();
    let problem = only_problem(&examine(&doctor(database.dsn())).await, check);
    admin.batch_execute(right).await.unwrap();
    assert_quiet(&examine(&doctor(database.dsn())).await);
    problem
}

#[tokio::test]
async fn a_fresh_schema_without_workers_is_healthy() {
    let database = migrated().await;
    let found = examine(&doctor(database.dsn())).await;
    assert_quiet(&found);
    assert_eq!(found.iter().map(|it| it.check).collect::<Vec<_>>(), CHECKS, "every check has its line");
}

#[tokio::test]
async fn a_schema_that_is_missing_or_of_another_version_is_no_diagnosis() {
    let database = empty().await;
    let missing = doctor(database.dsn()).examine().await.unwrap_err();
    assert!(matches!(missing, StoreError::Schema(SchemaProblem::Missing { .. })), "{missing}");
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    admin
        .batch_execute(
            "INSERT INTO taskq.schema_migrations (version, phase, name, checksum)
             VALUES ('99.00.00', 'pre', '99.00.00_01_pre_later.sql', 'x')",
        )
        .await
        .unwrap();
    let newer = doctor(database.dsn()).examine().await.unwrap_err();
    assert!(matches!(newer, StoreError::Schema(SchemaProblem::TooNew { .. })), "{newer}");
    let nobody = doctor("postgres://localhost:1/nothing").examine().await.unwrap_err();
    assert!(matches!(nobody, StoreError::Unavailable { .. }), "{nobody}");
}

#[tokio::test]
async fn a_month_that_is_detached_is_told() {
    let problem = fires(
        "archive",
        "CREATE TABLE taskq.jobs_archive_2999_01 (LIKE taskq.jobs_archive INCLUDING ALL)",
        "ALTER TABLE taskq.jobs_archive ATTACH PARTITION taskq.jobs_archive_2999_01
             FOR VALUES FROM ('2999-01-01 00:00:00+00') TO ('2999-02-01 00:00:00+00')",
    )
    .await;
    assert!(problem.message.contains("jobs_archive_2999_01"), "{problem:?}");
}

#[tokio::test]
async fn a_job_that_the_archive_has_already_is_told() {
    let problem = fires(
        "archive",
        "CREATE TABLE taskq.jobs_archive_2999_01 PARTITION OF taskq.jobs_archive
             FOR VALUES FROM ('2999-01-01 00:00:00+00') TO ('2999-02-01 00:00:00+00');
         INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload, finished_at, prune_at)
         SELECT gen_random_uuid(), now(), now(), 'succeeded', 'q', 'a', '1', now(), now() - interval '1 hour';
         INSERT INTO taskq.jobs_archive (id, created_at, priority, max_attempts, payload_version, scheduled_at, claim_epoch,
             status, attempt, finished_at, archived_at, queue, actor, cohort, payload)
         SELECT id, now(), 0, 1, 1, now(), 1, 'failed', 1, '2999-01-05', now(), 'q', 'a', '', '0' FROM taskq.jobs;
         INSERT INTO taskq.sweeps (sweep, epoch, reached_at) VALUES ('archive', 1, now())",
        "DELETE FROM taskq.jobs",
    )
    .await;
    assert!(
        problem.message.contains("1 finished jobs") && problem.message.contains("already"),
        "{problem:?}"
    );
}

#[tokio::test]
async fn a_job_that_the_archive_passed_over_is_told() {
    let problem = fires(
        "archive",
        "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload, finished_at, prune_at)
         SELECT gen_random_uuid(), now(), now(), 'succeeded', 'q', 'a', '1', now(), now() - interval '1 hour';
         INSERT INTO taskq.sweeps (sweep, epoch, reached_at) VALUES ('archive', 1, now())",
        "DELETE FROM taskq.jobs",
    )
    .await;
    assert!(problem.message.contains("passed over"), "{problem:?}");
}

#[tokio::test]
async fn a_function_changed_by_hand_is_told() {
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    admin.batch_execute("ALTER FUNCTION taskq.clip(text, integer) COST 7").await.unwrap();
    let problem = only_problem(&examine(&doctor(database.dsn())).await, "schema");
    assert!(problem.message.contains("clip"), "{problem:?}");
}

/// The role lacks what the doctor names, and its remedy is enough.
#[tokio::test]
async fn what_a_role_lacks_is_told_and_granted_by_the_remedy() {
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    // Roles belong to the whole server.
    let role = format!("doctor_{}", database.name());
    admin.batch_execute(&format!("CREATE ROLE \"{role}\"")).await.unwrap();
    let as_role = doctor(&format!("{}?options=-c%20role%3D{role}", database.dsn()));
    let found = examine(&as_role).await;
    let problem = only_problem(&found, "grants");
    assert!(problem.message.contains("USAGE on SCHEMA taskq"), "{problem:?}");
    let unknown = found.iter().filter(|it| it.verdict == Verdict::Unknown).count();
    assert!(unknown >= 4, "what cannot be read is told as unknown: {found:?}");

    let remedy = problem.remedy.unwrap();
    admin.batch_execute(remedy.strip_prefix("as the owner: ").unwrap()).await.unwrap();
    let found = examine(&as_role).await;
    assert!(found.iter().all(|it| it.verdict != Verdict::Problem), "{found:?}");
    let unknown: Vec<_> = found.iter().filter(|it| it.verdict == Verdict::Unknown).collect();
    assert_eq!(unknown.iter().map(|it| it.check).collect::<Vec<_>>(), ["transactions"]);
    assert!(unknown[0].remedy.as_ref().unwrap().contains("pg_read_all_stats"));

    admin.batch_execute(&format!("REVOKE EXECUTE ON FUNCTION taskq.claim FROM \"{role}\"")).await.unwrap();
    let problem = only_problem(&examine(&as_role).await, "grants");
    assert!(problem.message.contains("EXECUTE on FUNCTION taskq.claim("), "{problem:?}");
    // The owner is told as well.
    let problem = only_problem(&examine(&doctor(database.dsn())).await, "grants");
    assert!(problem.message.contains(&role) && problem.message.contains("taskq.claim("), "{problem:?}");

    // Another kind needs something else.
    admin.batch_execute(&format!("SELECT taskq.grant_role('{role}', 'read-only')")).await.unwrap();
    let found = examine(&as_role).await;
    assert!(found.iter().all(|it| it.verdict != Verdict::Problem), "{found:?}");
    admin.batch_execute(&format!("DROP OWNED BY \"{role}\"; DROP ROLE \"{role}\"")).await.unwrap();
    let problem = only_problem(&examine(&doctor(database.dsn())).await, "grants");
    assert!(problem.message.contains("is gone"), "{problem:?}");
    admin.batch_execute(problem.remedy.unwrap().strip_prefix("as the owner: ").unwrap()).await.unwrap();
    assert_quiet(&examine(&doctor(database.dsn())).await);
}

#[tokio::test]
async fn what_everybody_may_is_told() {
    for (object, wrong) in [
        ("FUNCTION taskq.settle", "GRANT EXECUTE ON FUNCTION taskq.settle TO PUBLIC"),
        ("TABLE taskq.jobs", "GRANT SELECT ON taskq.jobs TO PUBLIC"),
        ("SCHEMA taskq", "GRANT USAGE ON SCHEMA taskq TO PUBLIC"),
    ] {
        let right = wrong.replace("GRANT", "REVOKE").replace(" TO ", " FROM ");
        let problem = fires("grants", wrong, &right).await;
        assert!(problem.message.contains("every role") && problem.message.contains(object), "{problem:?}");
    }
}

#[tokio::test]
async fn what_belongs_to_another_than_the_owner_is_told() {
    let wrong = "ALTER FUNCTION taskq.claim OWNER TO pg_monitor";
    let problem = fires("grants", wrong, "ALTER FUNCTION taskq.claim OWNER TO postgres").await;
    assert!(problem.message.contains("belongs to pg_monitor"), "{problem:?}");
}

#[tokio::test]
async fn a_setting_that_makes_no_sense_is_told() {
    let wrong = "INSERT INTO taskq.settings VALUES ('event_retention_period', '\"-1 day\"')";
    // The sweep that it stops tells it as well.
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    admin.batch_execute(wrong).await.unwrap();
    let found = examine(&doctor(database.dsn())).await;
    let problem = found.iter().find(|it| it.check == "settings").unwrap();
    assert_eq!(problem.verdict, Verdict::Problem);
    assert!(problem.message.contains("event_retention_period") && problem.message.contains("negative"));
    let problem = fires(
        "settings",
        "INSERT INTO taskq.settings VALUES ('event_levle', '\"all\"')",
        "DELETE FROM taskq.settings",
    )
    .await;
    assert!(problem.message.contains("event_levle") && problem.message.contains("no such setting"));
}

#[tokio::test]
async fn a_default_isolation_that_refuses_claims_is_told() {
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    for (set, word) in [
        ("default_transaction_isolation = 'repeatable read'", "repeatable read"),
        ("default_transaction_read_only = on", "only read"),
    ] {
        admin.batch_execute(&format!("ALTER DATABASE \"{}\" SET {set}", database.name())).await.unwrap();
        let problem = only_problem(&examine(&doctor(database.dsn())).await, "isolation");
        assert!(problem.message.contains(word), "{problem:?}");
        admin.batch_execute(&format!("ALTER DATABASE \"{}\" RESET ALL", database.name())).await.unwrap();
    }
    assert_quiet(&examine(&doctor(database.dsn())).await);
}

#[tokio::test]
async fn clocks_that_disagree_are_told() {
    let database = migrated().await;
    for clock in [|| "2001-02-03T04:05:06Z".parse().unwrap(), || "2301-02-03T04:05:06Z".parse().unwrap()]
        as [fn() -> jiff::Timestamp; 2]
    {
        let problem = only_problem(&examine(&doctor(database.dsn()).with_clock(clock)).await, "clock");
        assert!(problem.message.contains("s apart"), "{problem:?}");
    }
}

#[tokio::test]
async fn a_table_that_is_never_vacuumed_is_told() {
    let problem = fires(
        "autovacuum",
        "ALTER TABLE taskq.jobs SET (autovacuum_enabled = off)",
        "ALTER TABLE taskq.jobs RESET (autovacuum_enabled)",
    )
    .await;
    assert!(problem.message.contains("table jobs"), "{problem:?}");
}

#[tokio::test]
async fn dead_rows_that_gather_are_told() {
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    admin
        .batch_execute(
            "ALTER TABLE taskq.job_events SET (autovacuum_enabled = off);
             INSERT INTO taskq.job_events (job_id, occurred_at, kind)
             SELECT gen_random_uuid(), now(), 'told' FROM generate_series(1, 500);
             UPDATE taskq.job_events SET detail = '{}'",
        )
        .await
        .unwrap();
    wait_until("the server has counted them", PATIENCE, async || {
        admin.batch_execute("SELECT pg_stat_force_next_flush()").await.unwrap();
        let dead =
            "SELECT n_dead_tup FROM pg_stat_all_tables WHERE schemaname = 'taskq' AND relname = 'job_events'";
        admin.query_one(dead, &[]).await.unwrap().get::<_, i64>(0) >= 500
    })
    .await;
    let mut limits = Limits::default();
    limits.dead_rows = 100;
    let strict = doctor(database.dsn()).with_limits(limits);
    let dead = |found: &[Diagnosis]| found.iter().find(|it| it.check == "dead_rows").cloned().unwrap();
    let problem = dead(&examine(&strict).await);
    assert_eq!(problem.verdict, Verdict::Problem, "{problem:?}");
    assert!(
        problem.message.contains("job_events") && problem.message.contains("vacuumed never"),
        "{problem:?}"
    );
    assert_eq!(dead(&examine(&doctor(database.dsn())).await).verdict, Verdict::Ok, "they are few");
}

fn without_patience(database: &TestDatabase) -> Doctor {
    let mut limits = Limits::default();
    limits.transaction_age = Duration::ZERO;
    doctor(database.dsn()).with_limits(limits)
}

#[tokio::test]
async fn a_transaction_that_is_left_open_is_told() {
    let database = migrated().await;
    let held = client(database.dsn()).await;
    held.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM taskq.jobs")
        .await
        .unwrap();
    let pid: i32 = held.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let found = examine(&without_patience(&database)).await;
    let named = found.iter().filter(|it| it.check == "transactions" && it.verdict == Verdict::Problem);
    assert!(named.clone().any(|it| it.message.contains(&format!("session {pid} "))), "{found:?}");
    assert!(named.clone().all(|it| it.remedy.as_ref().unwrap().contains("pg_terminate_backend")));
    assert_quiet(&examine(&doctor(database.dsn())).await);
    held.batch_execute("COMMIT").await.unwrap();
}

/// What belongs to the whole server is tried on one of its own.
#[tokio::test]
async fn what_nobody_takes_up_again_is_told() {
    let options = Options::for_tests(PgSource::from_env().unwrap()).setting("max_prepared_transactions", "2");
    let server = PrivateServer::start(options).await.unwrap();
    Migrator::new(server.dsn(), SchemaName::default()).unwrap().up(None).await.unwrap();
    let admin = client(server.dsn()).await;
    assert_quiet(&examine(&doctor(server.dsn())).await);

    admin
        .batch_execute(
            "BEGIN; SELECT taskq.set_setting('event_level', '\"all\"'); PREPARE TRANSACTION 'forgotten'",
        )
        .await
        .unwrap();
    let mut limits = Limits::default();
    limits.transaction_age = Duration::ZERO;
    let found = examine(&doctor(server.dsn()).with_limits(limits)).await;
    let problem = found.iter().find(|it| it.check == "prepared").unwrap();
    assert!(problem.message.contains("'forgotten'"), "{problem:?}");
    assert!(problem.remedy.as_ref().unwrap().contains("ROLLBACK PREPARED 'forgotten'"));
    assert_quiet(&examine(&doctor(server.dsn())).await);
    admin.batch_execute("ROLLBACK PREPARED 'forgotten'").await.unwrap();

    admin.batch_execute("SELECT pg_create_physical_replication_slot('idle', true)").await.unwrap();
    admin.batch_execute("CREATE TABLE filler AS SELECT n FROM generate_series(1, 10000) n").await.unwrap();
    let mut limits = Limits::default();
    limits.slot_bytes = 1;
    let problem = only_problem(&examine(&doctor(server.dsn()).with_limits(limits)).await, "slots");
    assert!(problem.message.contains("slot idle"), "{problem:?}");
    assert_quiet(&examine(&doctor(server.dsn())).await);

    admin.batch_execute("ALTER SYSTEM SET autovacuum = off; ").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    wait_until("the setting is read", PATIENCE, async || {
        let found = examine(&doctor(server.dsn())).await;
        found.iter().any(|it| it.check == "autovacuum" && it.message.contains("autovacuum is off"))
    })
    .await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_sweep_that_is_behind_or_fails_is_told() {
    let late = "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload)
                VALUES (gen_random_uuid(), now(), now() - interval '10 minutes', 'scheduled', 'q', 'a', '1')";
    let problem = fires("sweeps", late, "DELETE FROM taskq.jobs").await;
    assert!(problem.message.contains("promote") && problem.message.contains("nobody leads"), "{problem:?}");
    let failed = "INSERT INTO taskq.sweeps (sweep, epoch, last_run_at, last_error, last_error_at)
                  VALUES ('events', 0, now() - interval '1 hour', 'it broke', now())";
    let ran = "UPDATE taskq.sweeps SET last_run_at = now() + interval '1 s'";
    let problem = fires("sweeps", failed, ran).await;
    assert!(problem.message.contains("events") && problem.message.contains("it broke"), "{problem:?}");
}

#[tokio::test]
async fn jobs_that_nobody_serves_are_told() {
    let waiting = r#"SELECT taskq.enqueue('{"actor": "mail", "queue": "outbox", "payload": 1}')"#;
    let problem = fires("unserved", waiting, "DELETE FROM taskq.jobs").await;
    assert!(problem.message.contains("actor mail in the queue outbox: 1 jobs"), "{problem:?}");
    let many =
        "SELECT taskq.enqueue_many((SELECT jsonb_agg(jsonb_build_object('actor', 'a' || n, 'payload', n))
                FROM generate_series(1, 13) n))";
    let database = migrated().await;
    client(database.dsn()).await.batch_execute(many).await.unwrap();
    let found = examine(&doctor(database.dsn())).await;
    let named: Vec<_> = found.iter().filter(|it| it.check == "unserved").collect();
    assert_eq!(named.len(), 11);
    assert!(named[10].message.contains("3 more actors"), "{named:?}");
}

#[tokio::test]
async fn events_of_another_server_are_told() {
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    admin
        .batch_execute(
            "INSERT INTO taskq.job_events (job_id, occurred_at, kind, xid)
             VALUES (gen_random_uuid(), now(), 'told', '9999999999999')",
        )
        .await
        .unwrap();
    let problem = only_problem(&examine(&doctor(database.dsn())).await, "events");
    admin.batch_execute(&problem.remedy.unwrap()).await.unwrap();
    assert_quiet(&examine(&doctor(database.dsn())).await);
}

#[tokio::test]
async fn a_hook_that_nobody_holds_is_told_before_it_misses_what_is_swept() {
    let held = |since: &str| {
        format!(
            "INSERT INTO taskq.hooks (hook, xid, id, holder, held_until)
             VALUES ('it''s', '9999999999', 0, gen_random_uuid(), now() - interval '{since}')
             ON CONFLICT (hook) DO UPDATE SET held_until = excluded.held_until"
        )
    };
    let problem = fires("hooks", &held("4 days"), &held("3 days")).await;
    assert!(problem.message.contains("nobody has held the hook of ends it's since"), "{problem:?}");
    assert!(problem.message.contains("kept for 168 h, so it will miss ends"), "{problem:?}");
    let remedy = problem.remedy.as_ref().unwrap();
    let delete = &remedy[remedy.find("DELETE").unwrap()..remedy.find(" if nobody").unwrap()];
    let problem = fires("hooks", &held("8 days"), delete).await;
    assert!(problem.message.contains("so it has missed ends"), "{problem:?}");
    // Held by somebody who lives.
    let problem = fires("hooks", &held("5 days"), &held("-1 hour")).await;
    assert_eq!(problem.check, "hooks");
    // For ever kept, or kept for longer.
    for kept in ["0", "30 days"] {
        let longer = format!("INSERT INTO taskq.settings VALUES ('event_retention_period', '\"{kept}\"')");
        fires("hooks", &held("8 days"), &longer).await;
    }
    // What makes no sense keeps everything, and is told as what it is.
    let database = migrated().await;
    let nonsense = "INSERT INTO taskq.settings VALUES ('event_retention_period', '\"for long\"')";
    let wrong = format!("{}; {nonsense}", held("8 days"));
    client(database.dsn()).await.batch_execute(&wrong).await.unwrap();
    let found = examine(&doctor(database.dsn())).await;
    assert_eq!(found.iter().find(|it| it.check == "hooks").unwrap().verdict, Verdict::Ok, "{found:?}");
}

#[tokio::test]
async fn a_hook_that_is_held_and_behind_is_told() {
    let behind = "INSERT INTO taskq.job_events (job_id, occurred_at, kind)
             VALUES (gen_random_uuid(), now() - interval '100 hours', 'succeeded');
         INSERT INTO taskq.hooks (hook, xid, id, holder, held_until)
             VALUES ('stuck', '0', 0, gen_random_uuid(), now() + interval '1 minute')";
    let dealt_with = "UPDATE taskq.hooks h SET (xid, id) = (SELECT e.xid, e.id FROM taskq.job_events e)";
    let problem = fires("hooks", behind, dealt_with).await;
    assert!(problem.message.contains("the hook of ends stuck is behind"), "{problem:?}");
    assert!(problem.message.contains("happened 100 h ago"), "{problem:?}");
}

#[tokio::test]
async fn a_hook_that_is_given_back_is_told_like_one_whose_holder_died() {
    let given_back = "SELECT taskq.set_setting('event_level', '\"ends\"');
         SELECT taskq.hold_hook('ends', h, '30 s') FROM (VALUES ('00000000-0000-7000-8000-000000000001'::uuid)) v(h);
         SELECT taskq.hold_hook('ends', h, '0 s') FROM (VALUES ('00000000-0000-7000-8000-000000000001'::uuid)) v(h);
         UPDATE taskq.hooks SET held_until = held_until - interval '9 days'";
    let held_again = "SELECT taskq.hold_hook('ends', h, '30 s') FROM (VALUES ('00000000-0000-7000-8000-000000000002'::uuid)) v(h)";
    let problem = fires("hooks", given_back, held_again).await;
    assert!(problem.message.contains("nobody has held the hook of ends ends since"), "{problem:?}");
}
