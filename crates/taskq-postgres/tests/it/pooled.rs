//! Poolers between a store and its server.

use std::sync::Arc;
use std::time::Duration;

use taskq_core::model::{ActorName, Json, NewJob, PAYLOAD_LIMIT, QueueName, WorkerId};
use taskq_core::store::{
    Beat, ClaimRequest, QueueSlots, Registration, Store, StoreError, Sweep, SweepCall, Wake,
};
use taskq_postgres::{
    ConnectOptions, ConnectionMode, Doctor, MigrateError, Migrator, PostgresStore, SchemaName, Verdict,
};
use taskq_testkit::{PgBouncer, PoolMode, Proxy, TestDatabase, shared_pgbouncer};

use crate::connect::sessions;
use crate::database::{client, create_role, empty, hear, migrated, store};

const LEASE: Duration = Duration::from_mins(10);

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

fn job() -> NewJob {
    NewJob::new(queue(), ActorName::new("a").unwrap(), Json::from_value(&1, PAYLOAD_LIMIT).unwrap())
}

fn options(mode: ConnectionMode) -> ConnectOptions {
    ConnectOptions::new().mode(mode)
}

/// A pooler of the test's own, with one session for each database.
async fn pooler(
    database: &TestDatabase,
    mode: PoolMode,
    size: u32,
    settings: &[&str],
) -> (PgBouncer, String) {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let cluster = database.cluster().clone();
    let starting = move || {
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        PgBouncer::start(&cluster, mode, size, &settings).unwrap()
    };
    let pooler = tokio::task::spawn_blocking(starting).await.unwrap();
    let dsn = pooler.dsn_of(database.name());
    (pooler, dsn)
}

/// One call on each connection of a store.
async fn use_all(store: &PostgresStore) -> WorkerId {
    let worker = WorkerId::new();
    let registration = Registration {
        worker,
        queues: vec![queue()],
        actors: vec![ActorName::new("a").unwrap()],
        lease: LEASE,
        info: None,
    };
    store.register_worker(registration).await.unwrap();
    store.enqueue(vec![job()]).await.unwrap();
    let queues = vec![QueueSlots { queue: queue(), slots: 5, turn: None }];
    let request = ClaimRequest { worker, queues, lease: LEASE, oversample: 2 };
    assert!(!store.claim(request).await.unwrap().jobs.is_empty());
    let beat = Beat { worker, lease: LEASE, progress: vec![], leadership: Some(LEASE) };
    let epoch = store.heartbeat(beat).await.unwrap().leadership.unwrap();
    let mut sweep = SweepCall::new(worker, epoch, 10);
    sweep.timeout = Some(Duration::from_mins(1));
    store.sweep(Sweep::Promote, sweep).await.unwrap();
    assert!(store.release_worker(worker).await.unwrap() > 0);
    worker
}

/// Writes down under which settings each job is inserted.
const WITNESS: &str = "
    CREATE TABLE public.witness (isolation text, read_only text, statement text, lock text, idle text, dates text,
        zone text, spans text);
    CREATE FUNCTION public.witness() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO public.witness SELECT current_setting('transaction_isolation'),
            current_setting('transaction_read_only'), current_setting('statement_timeout'),
            current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout'),
            current_setting('DateStyle'), current_setting('TimeZone'), current_setting('IntervalStyle');
        RETURN NULL;
    END $$;
    CREATE TRIGGER witness AFTER INSERT ON taskq.jobs FOR EACH ROW EXECUTE FUNCTION public.witness()";

/// What it then finds in each.
const WITNESSED: [&str; 8] = ["read committed", "off", "1min", "5s", "1min", "ISO, MDY", "UTC", "postgres"];

/// Settings of a role that would break what does not bring its own. The time limits are those of a careful operator, long
/// enough for what is sent before they are replaced.
const HOSTILE: [&str; 13] = [
    "default_transaction_isolation = 'serializable'",
    "default_transaction_read_only = on",
    "statement_timeout = '30s'",
    "lock_timeout = '30s'",
    "idle_in_transaction_session_timeout = '30s'",
    "search_path = 'decoy', 'pg_catalog'",
    "jit = on",
    "jit_above_cost = 0",
    "enable_indexscan = off",
    "TimeZone = 'Asia/Kolkata'",
    "IntervalStyle = 'iso_8601'",
    "DateStyle = 'SQL, DMY'",
    "bytea_output = 'escape'",
];

/// Things of the names that statements use, in a schema that comes before all others.
const DECOYS: &str = "
    CREATE SCHEMA decoy;
    CREATE DOMAIN decoy.text AS pg_catalog.text CHECK (false);
    CREATE DOMAIN decoy.uuid AS pg_catalog.uuid CHECK (false);
    CREATE DOMAIN decoy.interval AS pg_catalog.interval CHECK (false);
    CREATE TABLE decoy.jobs (id pg_catalog.int4);
    CREATE TABLE decoy.workers (id pg_catalog.int4);
    CREATE FUNCTION decoy.now() RETURNS timestamptz LANGUAGE sql AS $$ SELECT 'epoch'::pg_catalog.timestamptz $$;
    CREATE FUNCTION decoy.jsonb_array_length(pg_catalog.jsonb) RETURNS int4 LANGUAGE sql AS $$ SELECT 0 $$;
    CREATE FUNCTION decoy.no(timestamptz, timestamptz) RETURNS bool LANGUAGE sql AS $$ SELECT false $$;
    CREATE OPERATOR decoy.< (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = decoy.no);
    CREATE OPERATOR decoy.<= (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = decoy.no);
    CREATE FUNCTION decoy.no(pg_catalog.uuid, pg_catalog.uuid) RETURNS bool LANGUAGE sql AS $$ SELECT false $$;
    CREATE OPERATOR decoy.= (LEFTARG = pg_catalog.uuid, RIGHTARG = pg_catalog.uuid, FUNCTION = decoy.no)";

async fn make_hostile(database: &TestDatabase) {
    let admin = client(database.dsn()).await;
    admin.batch_execute(WITNESS).await.unwrap();
    admin.batch_execute(DECOYS).await.unwrap();
    for setting in HOSTILE {
        let sql = format!("ALTER ROLE postgres IN DATABASE \"{}\" SET {setting}", database.name());
        admin.batch_execute(&sql).await.unwrap();
    }
}

async fn assert_witnessed(database: &TestDatabase) {
    let admin = client(database.dsn()).await;
    let rows = admin.query("SELECT DISTINCT w.* FROM public.witness w", &[]).await.unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    let found: Vec<String> = (0..WITNESSED.len()).map(|column| rows[0].get(column)).collect();
    assert_eq!(found, WITNESSED);
}

#[tokio::test]
async fn settings_of_a_hostile_role_change_nothing() {
    let database = migrated().await;
    make_hostile(&database).await;
    use_all(&*store(&database).await).await;
    assert_witnessed(&database).await;
}

#[tokio::test]
async fn settings_of_a_hostile_role_change_nothing_behind_a_pooler() {
    let database = migrated().await;
    make_hostile(&database).await;
    let dsn = shared_pgbouncer().await.dsn_of(database.name());
    let store = PostgresStore::connect(&dsn, ConnectOptions::new()).await.unwrap();
    use_all(&store).await;
    assert_witnessed(&database).await;
}

#[tokio::test]
async fn a_hostile_role_can_migrate() {
    let database = empty().await;
    let admin = client(database.dsn()).await;
    admin.batch_execute(DECOYS).await.unwrap();
    for setting in HOSTILE {
        let sql = format!("ALTER ROLE postgres IN DATABASE \"{}\" SET {setting}", database.name());
        admin.batch_execute(&sql).await.unwrap();
    }
    let migrator = Migrator::new(database.dsn(), SchemaName::default()).unwrap();
    migrator.up(None).await.unwrap();
    assert_eq!(migrator.verify().await.unwrap(), []);
    use_all(&*store(&database).await).await;
}

#[tokio::test]
async fn a_pooled_store_leaves_nothing_behind_in_the_sessions_of_others() {
    let database = migrated().await;
    let (_pooler, dsn) = pooler(&database, PoolMode::Transaction, 1, &[]).await;
    let store = PostgresStore::connect(&dsn, ConnectOptions::new()).await.unwrap();
    use_all(&store).await;
    // So many would be copied on a connection of the store's own.
    store.enqueue((0..2_000).map(|_| job()).collect()).await.unwrap();
    let (other, connection) = tokio_postgres::connect(&dsn, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let left = "SELECT (SELECT count(*) FROM pg_prepared_statements),
        (SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()),
        (SELECT count(*) FROM pg_listening_channels()),
        (SELECT count(*) FROM pg_settings WHERE source IN ('session', 'client')
            AND name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'TimeZone',
                'standard_conforming_strings'))";
    let rows = other.query_typed(left, &[]).await.unwrap();
    let left: Vec<i64> = (0..4).map(|column| rows[0].get(column)).collect();
    assert_eq!(left, [0; 4], "statements, tables, channels, settings");
    let record = store.stats().await.unwrap();
    assert!(record.jobs.iter().any(|(_, count)| count.value == 2_001), "{record:?}");
}

#[tokio::test]
async fn many_calls_at_once_share_one_session_and_keep_apart() {
    let database = migrated().await;
    let (_pooler, dsn) = pooler(&database, PoolMode::Transaction, 1, &[]).await;
    let store = PostgresStore::connect(&dsn, ConnectOptions::new()).await.unwrap();
    let calls = (0..200).map(|nth| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            if nth % 10 == 3 {
                // What is refused takes none of the others along.
                let error = store.enqueue(vec![NewJob { max_attempts: 0, ..job() }]).await.unwrap_err();
                assert!(matches!(error, StoreError::Invalid { .. }), "{error}");
                return 0;
            }
            let job = job();
            let id = job.id;
            assert_eq!(store.enqueue(vec![job]).await.unwrap()[0].id, id);
            1
        })
    });
    let mut written = 0;
    for call in calls.collect::<Vec<_>>() {
        written += call.await.unwrap();
    }
    let admin = client(database.dsn()).await;
    let stored: i64 = admin.query_one("SELECT count(*) FROM taskq.jobs", &[]).await.unwrap().get(0);
    assert_eq!(stored, written);
}

#[tokio::test]
async fn a_pooled_store_says_that_it_hears_nothing() {
    let database = migrated().await;
    let dsn = shared_pgbouncer().await.dsn_of(database.name());
    let store = PostgresStore::connect(&dsn, ConnectOptions::new()).await.unwrap();
    let mut first = store.wakes();
    hear(&mut first, &Wake::Silence).await;
    // Also to those who come later.
    let mut second = store.wakes();
    hear(&mut second, &Wake::Silence).await;
}

#[tokio::test]
async fn the_direct_mode_refuses_a_pooler_in_transaction_mode() {
    let database = migrated().await;
    for size in [1, 3] {
        let (_pooler, dsn) = pooler(&database, PoolMode::Transaction, size, &[]).await;
        let error = PostgresStore::connect(&dsn, options(ConnectionMode::Direct)).await.unwrap_err();
        let StoreError::Pooler { message } = &error else { panic!("{error:?}") };
        assert!(message.contains("choose the pooled mode"), "{message}");
        assert!(!error.is_transient());
    }
}

#[tokio::test]
async fn the_pooled_mode_needs_no_pooler() {
    let database = migrated().await;
    let store = PostgresStore::connect(database.dsn(), options(ConnectionMode::Pooled)).await.unwrap();
    let mut wakes = store.wakes();
    hear(&mut wakes, &Wake::Silence).await;
    use_all(&store).await;
    let admin = client(database.dsn()).await;
    assert!(sessions(&database, &admin).await.contains(&"taskq:sweep".to_owned()));
}

#[tokio::test]
async fn a_pooler_in_session_mode_is_as_good_as_none() {
    let database = migrated().await;
    make_hostile(&database).await;
    for settings in [&[][..], &["ignore_startup_parameters = options"]] {
        let (_pooler, dsn) = pooler(&database, PoolMode::Session, 10, settings).await;
        let store = PostgresStore::connect(&dsn, options(ConnectionMode::Direct)).await.unwrap();
        let mut wakes = store.wakes();
        hear(&mut wakes, &Wake::Everything).await;
        use_all(&store).await;
        hear(&mut wakes, &Wake::Ready(queue())).await;
    }
    assert_witnessed(&database).await;
}

#[tokio::test]
async fn a_pooler_in_statement_mode_is_refused() {
    let database = migrated().await;
    let (_pooler, dsn) = pooler(&database, PoolMode::Statement, 2, &[]).await;
    let error = PostgresStore::connect(&dsn, ConnectOptions::new()).await.unwrap_err();
    let StoreError::Pooler { message } = &error else { panic!("{error:?}") };
    assert!(message.contains("transaction or session mode"), "{message}");
}

#[tokio::test]
async fn migrations_refuse_a_pooler_in_transaction_mode_and_may_be_looked_at() {
    let database = empty().await;
    let dsn = shared_pgbouncer().await.dsn_of(database.name());
    let through = Migrator::new(&dsn, SchemaName::default()).unwrap();
    let error = through.up(None).await.unwrap_err();
    assert!(matches!(error, MigrateError::Pooler), "{error:?}");
    assert!(!through.status().await.unwrap().exists, "nothing was changed");

    Migrator::new(database.dsn(), SchemaName::default()).unwrap().up(None).await.unwrap();
    assert_eq!(through.verify().await.unwrap(), []);
    assert_eq!(through.up(None).await.unwrap().steps, [""; 0], "there is nothing to do");
}

#[tokio::test]
async fn the_doctor_tells_of_a_real_pooler() {
    let database = migrated().await;
    let dsn = shared_pgbouncer().await.dsn_of(database.name());
    let found = Doctor::new(&dsn, SchemaName::default()).unwrap().examine().await.unwrap();
    let pooler = found.iter().find(|it| it.check == "pooler").unwrap();
    assert_eq!(pooler.verdict, Verdict::Problem, "{found:?}");
    assert!(found.iter().all(|it| it.check == "pooler" || it.verdict != Verdict::Problem), "{found:?}");
}

/// Makes every session forget its statements when a job is written.
const FORGETFUL: &str = "
    CREATE FUNCTION public.forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        EXECUTE 'DEALLOCATE ALL'; RETURN NULL;
    END $$;
    CREATE TRIGGER forget AFTER INSERT ON taskq.jobs FOR EACH STATEMENT EXECUTE FUNCTION public.forget()";

#[tokio::test]
async fn a_session_that_lost_its_statements_is_left_for_a_new_one() {
    let database = migrated().await;
    client(database.dsn()).await.batch_execute(FORGETFUL).await.unwrap();
    for mode in [ConnectionMode::Auto, ConnectionMode::Direct] {
        let store = PostgresStore::connect(database.dsn(), options(mode)).await.unwrap();
        for _ in 0..5 {
            store.enqueue(vec![job()]).await.unwrap();
        }
    }
}

#[tokio::test]
async fn sessions_that_turn_out_to_be_shared_are_used_as_such_from_then_on() {
    let database = migrated().await;
    client(database.dsn()).await.batch_execute(FORGETFUL).await.unwrap();
    // The server sees the proxy, so the store cannot be sure that nothing is in between.
    let proxy = Proxy::start(database.dsn()).unwrap();
    let store = PostgresStore::connect(proxy.dsn(), ConnectOptions::new()).await.unwrap();
    let mut wakes = store.wakes();
    hear(&mut wakes, &Wake::Everything).await;
    for _ in 0..5 {
        store.enqueue(vec![job()]).await.unwrap();
    }
    let admin = client(database.dsn()).await;
    let end = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'taskq:claim'";
    admin.query(end, &[]).await.unwrap();
    // The next connection is in the pooled mode.
    hear(&mut wakes, &Wake::Silence).await;
    let mut later = store.wakes();
    hear(&mut later, &Wake::Silence).await;
    use_all(&store).await;
}

#[tokio::test]
async fn a_comparison_of_sessions_that_is_cut_off_leaves_what_serves_everywhere() {
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    let role = format!("role_{}", database.name());
    // The second session, to compare the first one with, is refused.
    let grants = format!(
        "{} ALTER ROLE {role} CONNECTION LIMIT 1; SELECT taskq.grant_role('{role}', 'worker')",
        create_role(&role)
    );
    admin.batch_execute(&grants).await.unwrap();
    // The server sees the proxy, so there is something to find out.
    let (_, server) = database.dsn().split_once('@').unwrap();
    let proxy = Proxy::start(&format!("postgres://{role}:secret@{server}")).unwrap();
    let store = PostgresStore::connect(proxy.dsn(), ConnectOptions::new()).await.unwrap();
    admin.batch_execute(&format!("ALTER ROLE {role} CONNECTION LIMIT -1")).await.unwrap();
    let mut wakes = store.wakes();
    hear(&mut wakes, &Wake::Silence).await;
    use_all(&store).await;
    drop(store);
    admin.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}
