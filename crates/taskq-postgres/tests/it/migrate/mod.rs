//! Migrations on a real server.

mod index;
mod traffic;
mod upgrade;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use taskq_core::store::{Count, Store};
use taskq_postgres::{
    ConnectOptions, Finding, FunctionsState, MigrateError, MigrationSet, MigrationState, Migrator, Phase,
    PostgresStore, SchemaName,
};
use taskq_testkit::{TestDatabase, wait_until};

use crate::database::{PATIENCE, client, empty, migrated};

const FIRST: &str = "01.00.00_01_pre_first.sql";
const SECOND: &str = "01.00.00_02_pre_second.sql";
const LAST: &str = "01.00.00_03_post_last.sql";

const TABLE: &str = "CREATE TABLE \"{schema}\".t (a integer);";
const FUNCTION: &str =
    "CREATE OR REPLACE FUNCTION \"{schema}\".f() RETURNS integer LANGUAGE sql AS $$ SELECT 1 $$;";

fn migrator(database: &TestDatabase) -> Migrator {
    Migrator::new(database.dsn(), SchemaName::default()).unwrap()
}

fn set(version: &str, migrations: &[(&str, &str)], functions: &[(&str, &str)]) -> MigrationSet {
    let owned = |(name, sql): &(&str, &str)| ((*name).to_owned(), (*sql).to_owned());
    MigrationSet::new(version, migrations.iter().map(owned), functions.iter().map(owned)).unwrap()
}

/// A migrator with a small set of its own.
fn small(database: &TestDatabase, migrations: &[(&str, &str)]) -> Migrator {
    migrator(database).with_set(set("1.0.0", migrations, &[("f.sql", FUNCTION)]))
}

async fn steps(migrator: &Migrator, phase: Option<Phase>) -> Vec<String> {
    migrator.up(phase).await.unwrap().steps
}

/// What the schema holds, in words: columns, indexes, constraints, functions, settings of tables, rights, the ledger.
async fn contents(database: &TestDatabase) -> BTreeMap<String, String> {
    let sql = "
        SELECT 'column ' || c.relname || '.' || a.attname, pg_catalog.format('%s %s %s %s %s',
            a.attnum, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attcollation,
            pg_catalog.pg_get_expr(d.adbin, d.adrelid))
        FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
        LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relnamespace = 'taskq'::regnamespace
        UNION ALL
        SELECT 'options ' || c.relname, c.reloptions::text FROM pg_catalog.pg_class c
        WHERE c.relnamespace = 'taskq'::regnamespace
        UNION ALL
        SELECT 'index ' || i.indexname, i.indexdef FROM pg_catalog.pg_indexes i WHERE i.schemaname = 'taskq'
        UNION ALL
        SELECT 'constraint ' || n.conname, pg_catalog.pg_get_constraintdef(n.oid)
        FROM pg_catalog.pg_constraint n WHERE n.connamespace = 'taskq'::regnamespace
        UNION ALL
        SELECT 'function ' || p.oid::regprocedure, pg_catalog.pg_get_functiondef(p.oid)
        FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'taskq'::regnamespace
        UNION ALL
        SELECT 'rights on ' || c.relname, c.relacl::text FROM pg_catalog.pg_class c
        WHERE c.relnamespace = 'taskq'::regnamespace
        UNION ALL
        SELECT 'rights on ' || p.oid::regprocedure, p.proacl::text FROM pg_catalog.pg_proc p
        WHERE p.pronamespace = 'taskq'::regnamespace
        UNION ALL
        SELECT 'rights on the schema', n.nspacl::text FROM pg_catalog.pg_namespace n WHERE n.nspname = 'taskq'
        UNION ALL
        SELECT 'label ' || t.typname || '.' || e.enumlabel, e.enumsortorder::text
        FROM pg_catalog.pg_enum e JOIN pg_catalog.pg_type t ON t.oid = e.enumtypid
        WHERE t.typnamespace = 'taskq'::regnamespace
        UNION ALL
        SELECT 'trigger ' || c.relname || '.' || g.tgname, pg_catalog.pg_get_triggerdef(g.oid)
        FROM pg_catalog.pg_trigger g JOIN pg_catalog.pg_class c ON c.oid = g.tgrelid
        WHERE c.relnamespace = 'taskq'::regnamespace AND NOT g.tgisinternal
        UNION ALL
        SELECT 'sequence ' || q.sequencename,
            pg_catalog.format('%s %s %s %s', q.data_type, q.start_value, q.increment_by, q.cache_size) FROM pg_catalog.pg_sequences q WHERE q.schemaname = 'taskq'
        UNION ALL
        SELECT 'ledger ' || m.name, pg_catalog.format('%s %s %s', m.version, m.phase, m.checksum)
        FROM taskq.schema_migrations m";
    let rows = client(database.dsn()).await.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get::<_, Option<String>>(1).unwrap_or_default())).collect()
}

#[tokio::test]
async fn a_fresh_schema_is_made_and_a_second_run_does_nothing() {
    let database = empty().await;
    let migrator = migrator(&database);
    assert_eq!(migrator.verify().await.unwrap(), [Finding::Missing]);
    let planned: Vec<_> = migrator.plan(None).await.unwrap().into_iter().map(|step| step.name).collect();
    let done = steps(&migrator, None).await;
    assert_eq!(done, planned);
    assert_eq!(done.first().map(String::as_str), Some("schema"));
    assert!(done.iter().any(|step| step == "functions"), "{done:?}");

    assert!(steps(&migrator, None).await.is_empty());
    assert_eq!(migrator.verify().await.unwrap(), []);
    let status = migrator.status().await.unwrap();
    assert!(status.exists && status.functions == FunctionsState::Current);
    assert!(
        status.migrations.iter().all(|one| one.state == MigrationState::Applied && one.applied_at.is_some())
    );
}

#[tokio::test]
async fn ten_at_once_are_one() {
    let database = empty().await;
    let runs = (0..10).map(|_| {
        let migrator = migrator(&database);
        tokio::spawn(async move { migrator.up(None).await.unwrap().steps })
    });
    let mut done = Vec::new();
    for run in runs.collect::<Vec<_>>() {
        done.extend(run.await.unwrap());
    }
    let mut distinct = done.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(done.len(), distinct.len(), "each step was run once: {done:?}");
    assert_eq!(migrator(&database).verify().await.unwrap(), []);
}

#[tokio::test]
async fn schemas_with_unusual_names_live_side_by_side() {
    let database = empty().await;
    for name in ["taskq", "Job queue-2", "日本"] {
        let schema = SchemaName::new(name).unwrap();
        Migrator::new(database.dsn(), schema.clone()).unwrap().up(None).await.unwrap();
        let options = ConnectOptions::new().schema(schema);
        let store = PostgresStore::connect(database.dsn(), options).await.unwrap();
        assert!(store.stats().await.unwrap().jobs.iter().all(|(_, count)| *count == Count::default()));
    }
}

#[tokio::test]
async fn a_migration_that_was_cut_off_goes_on() {
    let database = empty().await;
    let slow = "CREATE TABLE \"{schema}\".slow (a integer); SELECT pg_catalog.pg_sleep(600);";
    let migrator = small(&database, &[(FIRST, TABLE), (SECOND, slow)]);
    let admin = client(database.dsn()).await;
    let running = tokio::spawn(async move { migrator.up(None).await.map(drop) });
    let asleep = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity
        WHERE datname = current_database() AND wait_event = 'PgSleep'";
    wait_until("the second file is being applied", PATIENCE, async || {
        admin.query_one(asleep, &[]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    // The server notices when it next looks; a killed process's session ends the same way.
    let end = "SELECT pg_catalog.pg_terminate_backend(pid, 10000) FROM pg_catalog.pg_stat_activity
        WHERE datname = current_database() AND application_name = 'taskq:migrate'";
    admin.query(end, &[]).await.unwrap();
    let migrator = small(&database, &[(FIRST, TABLE), (SECOND, "CREATE TABLE \"{schema}\".slow ();")]);
    assert_eq!(steps(&migrator, None).await, [SECOND, "functions"]);
}

#[tokio::test]
async fn a_file_that_fails_leaves_nothing_behind_and_is_named() {
    let database = empty().await;
    let bad = "CREATE TABLE \"{schema}\".u ();\n\nSELECT nonsense;";
    let migrator = small(&database, &[(FIRST, TABLE), (SECOND, bad)]);
    let error = migrator.up(None).await.unwrap_err();
    let MigrateError::Statement { name, sqlstate, line, .. } = &error else { panic!("{error}") };
    assert_eq!((name.as_str(), sqlstate.as_str(), *line), (SECOND, "42703", Some(3)));
    let found = contents(&database).await;
    assert!(found.contains_key("column t.a"), "earlier files stay");
    assert!(!found.keys().any(|key| key.contains(SECOND)));
    let tables = "SELECT to_regclass('taskq.u') IS NULL";
    assert!(client(database.dsn()).await.query_one(tables, &[]).await.unwrap().get::<_, bool>(0));
}

#[tokio::test]
async fn drift_is_refused_and_comments_are_none() {
    let database = empty().await;
    small(&database, &[(FIRST, TABLE)]).up(None).await.unwrap();

    let comment = format!("-- A typing error, put right.\n\n{TABLE}\n");
    let same = small(&database, &[(FIRST, &comment)]);
    assert!(steps(&same, None).await.is_empty());
    assert_eq!(same.verify().await.unwrap(), []);

    let changed =
        small(&database, &[(FIRST, "CREATE TABLE \"{schema}\".t (b integer);"), (SECOND, "SELECT 1;")]);
    let error = changed.up(None).await.unwrap_err();
    assert!(matches!(&error, MigrateError::Drift { name } if name == FIRST), "{error}");
    assert!(error.to_string().contains(FIRST));
    assert_eq!(
        changed.verify().await.unwrap(),
        [Finding::Drifted { name: FIRST.to_owned() }, Finding::Pending { name: SECOND.to_owned() }]
    );
    assert!(!contents(&database).await.keys().any(|key| key.contains(SECOND)), "nothing was changed");
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_as_it_is() {
    let database = empty().await;
    small(&database, &[(FIRST, TABLE), (SECOND, "SELECT 1;")]).up(None).await.unwrap();
    let before = contents(&database).await;
    let older = small(&database, &[(FIRST, TABLE)]);
    let error = older.up(None).await.unwrap_err();
    assert!(matches!(error, MigrateError::Newer(_)), "{error}");
    assert!(error.to_string().contains(SECOND), "{error}");
    assert_eq!(older.verify().await.unwrap(), [Finding::Unknown { name: SECOND.to_owned() }]);

    let other = FUNCTION.replace("SELECT 1", "SELECT 2");
    let both = [(FIRST, TABLE), (SECOND, "SELECT 1;")];
    let functions = [("f.sql", other.as_str())];
    let older = migrator(&database).with_set(set("0.9.0", &both, &functions));
    let error = older.up(None).await.unwrap_err();
    assert!(matches!(error, MigrateError::Newer(_)), "{error}");
    assert_eq!(contents(&database).await, before);
}

#[tokio::test]
async fn post_waits_for_its_pre() {
    let database = empty().await;
    let files = [(FIRST, TABLE), (LAST, "DROP TABLE \"{schema}\".t;")];
    let migrator = small(&database, &files);
    let error = migrator.up(Some(Phase::Post)).await.unwrap_err();
    assert!(
        matches!(&error, MigrateError::PostBeforePre { post, pre } if post == LAST && pre == FIRST),
        "{error}"
    );
    let exists = "SELECT to_regnamespace('taskq') IS NOT NULL";
    assert!(!client(database.dsn()).await.query_one(exists, &[]).await.unwrap().get::<_, bool>(0));

    assert_eq!(steps(&migrator, Some(Phase::Pre)).await, ["schema", FIRST, "functions"]);
    assert_eq!(migrator.verify().await.unwrap(), [Finding::Pending { name: LAST.to_owned() }]);
    let later = migrator.clone().with_set(set("1.1.0", &files, &[("f.sql", &FUNCTION.replace('1', "2"))]));
    let error = later.up(Some(Phase::Post)).await.unwrap_err();
    assert!(matches!(&error, MigrateError::PostBeforePre { pre, .. } if pre == "the functions"), "{error}");
    assert_eq!(steps(&migrator, Some(Phase::Post)).await, [LAST]);
}

#[tokio::test]
async fn functions_are_one_set() {
    let database = empty().await;
    let files = [(FIRST, TABLE)];
    let migrator =
        |version, functions: &[(&str, &str)]| migrator(&database).with_set(set(version, &files, functions));
    let caller = "CREATE OR REPLACE FUNCTION \"{schema}\".a() RETURNS integer LANGUAGE sql
        AS $$ SELECT \"{schema}\".f() $$;";
    let first = migrator("1.0.0", &[("f.sql", FUNCTION), ("a.sql", caller)]);
    assert_eq!(steps(&first, None).await, ["schema", FIRST, "functions"]);
    assert_eq!(first.verify().await.unwrap(), []);

    // One bad function, and none of the set is applied.
    let bad = "CREATE OR REPLACE FUNCTION \"{schema}\".g() RETURNS integer LANGUAGE plpgsql
        AS $$ BEGIN RETURN 1 +; END $$;";
    let two = FUNCTION.replace("SELECT 1", "SELECT 2");
    let broken = migrator("1.0.1", &[("f.sql", two.as_str()), ("a.sql", caller), ("g.sql", bad)]);
    let error = broken.up(None).await.unwrap_err();
    assert!(matches!(&error, MigrateError::Statement { name, .. } if name == "functions"), "{error}");
    let admin = client(database.dsn()).await;
    let call = "SELECT taskq.a()";
    assert_eq!(admin.query_one(call, &[]).await.unwrap().get::<_, i32>(0), 1);

    let second = migrator("1.0.1", &[("f.sql", two.as_str()), ("a.sql", caller)]);
    assert_eq!(second.verify().await.unwrap(), [Finding::Functions { state: FunctionsState::Outdated }]);
    assert_eq!(steps(&second, None).await, ["functions"]);
    assert_eq!(admin.query_one(call, &[]).await.unwrap().get::<_, i32>(0), 2);
    assert_eq!(second.verify().await.unwrap(), []);
}

#[tokio::test]
async fn functions_that_were_edited_or_dropped_are_found() {
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    let edit = "CREATE OR REPLACE FUNCTION taskq.clock() RETURNS timestamptz LANGUAGE sql STABLE
        AS $$ SELECT now() $$;
        DROP FUNCTION taskq.retry_delay;";
    admin.batch_execute(edit).await.unwrap();
    let findings = migrator(&database).verify().await.unwrap();
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings.contains(&Finding::FunctionEdited { function: "clock()".to_owned() }), "{findings:?}");
    let is_gone = |finding: &Finding| matches!(finding, Finding::FunctionMissing { function } if function.starts_with("retry_delay("));
    assert!(findings.iter().any(is_gone), "{findings:?}");
}

#[tokio::test]
async fn a_locked_table_is_tried_again_and_named_in_the_end() {
    let database = empty().await;
    small(&database, &[(FIRST, TABLE)]).up(None).await.unwrap();
    let add = "ALTER TABLE \"{schema}\".t ADD COLUMN b integer;";
    let migrator = small(&database, &[(FIRST, TABLE), (SECOND, add)]);
    let holder = client(database.dsn()).await;
    holder.batch_execute("BEGIN; LOCK TABLE taskq.t IN ACCESS SHARE MODE").await.unwrap();
    let error = migrator.clone().with_patience(Duration::from_millis(1)).up(None).await.unwrap_err();
    assert!(matches!(&error, MigrateError::Locked { name, .. } if name == SECOND), "{error}");
    let running = tokio::spawn(async move { migrator.up(None).await.unwrap().steps });
    let waiting = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks WHERE NOT granted
        AND relation = 'taskq.t'::regclass";
    wait_until("the migration waits for the table", PATIENCE, async || {
        holder.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;
    holder.batch_execute("COMMIT").await.unwrap();
    assert_eq!(running.await.unwrap(), [SECOND]);
}

#[tokio::test]
async fn a_second_migrator_gives_up_in_the_end() {
    let database = empty().await;
    let (one, two) = (migrator(&database), migrator(&database));
    // The lock as a migrator takes it, from the script that it would print.
    let script = one.sql(None).await.unwrap();
    let start = script.find("DO $lock$").unwrap();
    let end = script.find("$lock$;\n\n").unwrap() + "$lock$;".len();
    let holder = client(database.dsn()).await;
    holder.batch_execute(&script[start..end]).await.unwrap();
    let error = two.with_patience(Duration::from_millis(1)).up(None).await.unwrap_err();
    assert!(matches!(error, MigrateError::Busy(_)), "{error}");
    drop(holder);
    one.up(None).await.unwrap();
}

#[tokio::test]
async fn the_printed_script_runs_in_psql_and_makes_the_same_schema() {
    let (by_script, by_program) = (empty().await, empty().await);
    let script = migrator(&by_script).sql(None).await.unwrap();
    if let Some(psql) = psql() {
        let dsn = by_script.dsn().to_owned();
        let output = tokio::task::spawn_blocking(move || run(&psql, &dsn, &script)).await.unwrap();
        assert!(output.is_ok(), "{output:?}");
    } else {
        // No psql here: its one command is left out, the SQL is the same.
        let sql = script.replace("\\set ON_ERROR_STOP on\n", "");
        client(by_script.dsn()).await.batch_execute(&sql).await.unwrap();
    }
    assert!(steps(&migrator(&by_script), None).await.is_empty());
    assert_eq!(migrator(&by_script).verify().await.unwrap(), []);
    migrator(&by_program).up(None).await.unwrap();
    assert_eq!(contents(&by_script).await, contents(&by_program).await);
    assert!(migrator(&by_script).sql(None).await.unwrap().starts_with("-- Nothing to do"));
}

/// Finds psql: in the directory that `TASKQ_PG` names, else in PATH.
fn psql() -> Option<PathBuf> {
    let named = std::env::var_os("TASKQ_PG").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    named
        .into_iter()
        // The programs' own directory, or what they are installed under.
        .flat_map(|directory| [directory.join("bin"), directory])
        .chain(std::env::split_paths(&path))
        .map(|directory| directory.join("psql"))
        .find(|file| file.is_file())
}

fn run(psql: &PathBuf, dsn: &str, script: &str) -> Result<(), String> {
    let mut child = Command::new(psql)
        .args(["--no-psqlrc", "--quiet", "--dbname", dsn])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    child.stdin.take().unwrap().write_all(script.as_bytes()).map_err(|error| error.to_string())?;
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() && complaints.is_empty() { Ok(()) } else { Err(complaints) }
}
