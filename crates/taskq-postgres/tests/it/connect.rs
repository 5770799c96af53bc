//! Connections: how they fail, and how they come back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use taskq_core::model::{
    ActorName, EnqueueOutcome, Json, NewJob, PAYLOAD_LIMIT, QueueName, Schedule, WorkerId,
};
use taskq_core::store::{Beat, Registration, SchemaProblem, Store, StoreError, Sweep, SweepCall, Wake};
use taskq_postgres::{ConnectOptions, Migrator, PostgresStore, SchemaName};
use taskq_testkit::{TestDatabase, wait_for, wait_until};

use crate::database::{PATIENCE, client, empty, hear, migrated, store};

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

fn job(queue_name: &str) -> NewJob {
    let payload = Json::from_value(&1, PAYLOAD_LIMIT).unwrap();
    NewJob::new(queue(queue_name), ActorName::new("a").unwrap(), payload)
}

async fn refusal(dsn: &str) -> StoreError {
    let error = PostgresStore::connect(dsn, ConnectOptions::new()).await.unwrap_err();
    let line = error.to_string();
    assert!(!line.contains('\n') && !line.contains("secret"), "{line}");
    error
}

/// The database's DSN for another role.
pub(crate) fn as_role(database: &TestDatabase, role: &str, password: &str) -> String {
    let config: tokio_postgres::Config = database.dsn().parse().unwrap();
    let host = match &config.get_hosts()[0] {
        tokio_postgres::config::Host::Tcp(host) => host.clone(),
        #[cfg(unix)]
        tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
    };
    let (port, name) = (config.get_ports()[0], database.name());
    format!("host={host} port={port} user={role} password={password} dbname={name}")
}

/// The application names of the store's sessions.
pub(crate) async fn sessions(database: &TestDatabase, admin: &tokio_postgres::Client) -> Vec<String> {
    let sql = "SELECT application_name FROM pg_stat_activity
        WHERE datname = $1 AND application_name LIKE 'taskq:%' ORDER BY 1";
    let rows = admin.query(sql, &[&database.name()]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn terminate(database: &TestDatabase, admin: &tokio_postgres::Client, names: &str) {
    let sql = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
        WHERE datname = $1 AND application_name LIKE $2";
    let rows = admin.query(sql, &[&database.name(), &names]).await.unwrap();
    assert!(!rows.is_empty(), "{names} had a session");
}

async fn register(store: &PostgresStore) -> WorkerId {
    let worker = WorkerId::new();
    let registration = Registration {
        worker,
        queues: vec![queue("q")],
        actors: vec![ActorName::new("a").unwrap()],
        lease: Duration::from_mins(10),
        info: None,
    };
    store.register_worker(registration).await.unwrap();
    worker
}

fn beat(worker: WorkerId) -> Beat {
    Beat {
        worker,
        lease: Duration::from_mins(10),
        progress: vec![],
        leadership: Some(Duration::from_mins(10)),
    }
}

#[tokio::test]
async fn no_server_is_unavailable_in_one_line() {
    // Nobody listens on port 1.
    let error = refusal("postgres://u:secret@127.0.0.1:1/d").await;
    assert!(
        matches!(&error, StoreError::Unavailable { message, .. } if message.contains("127.0.0.1")),
        "{error}"
    );
    assert!(error.is_transient());
}

#[tokio::test]
async fn a_server_that_hangs_up_is_unavailable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let hanging_up = async {
        let (socket, _) = listener.accept().await.unwrap();
        drop(socket);
    };
    let dsn = format!("host=127.0.0.1 port={port} user=u");
    let (error, ()) = tokio::join!(refusal(&dsn), hanging_up);
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
}

#[tokio::test]
async fn an_unknown_database_or_role_is_refused() {
    let database = empty().await;
    let missing = database.cluster().dsn_of("no_such_database");
    let error = refusal(&missing).await;
    assert!(
        matches!(&error, StoreError::Refused { message } if message.contains("no_such_database")),
        "{error}"
    );
}

#[tokio::test]
async fn a_wrong_password_is_refused() {
    let database = migrated().await;
    let config: tokio_postgres::Config = database.dsn().parse().unwrap();
    let dsn = as_role(&database, config.get_user().unwrap(), "not-the-secret");
    if config.get_password().is_none() {
        // A server that trusts everybody looks at no password.
        PostgresStore::connect(&dsn, ConnectOptions::new()).await.unwrap();
        return;
    }
    let error = refusal(&dsn).await;
    assert!(matches!(&error, StoreError::Refused { message } if message.contains("password")), "{error}");
}

#[tokio::test]
async fn a_schema_that_does_not_fit_is_refused() {
    let database = empty().await;
    let problem = |error| match error {
        StoreError::Schema(problem) => problem,
        error => panic!("{error}"),
    };
    let missing = problem(refusal(database.dsn()).await);
    assert_eq!(missing, SchemaProblem::Missing { schema: "taskq".to_owned() });

    Migrator::new(database.dsn(), SchemaName::default()).unwrap().up(None).await.unwrap();
    let opened = store(&database).await;
    let admin = client(database.dsn()).await;
    let newer = "INSERT INTO taskq.schema_migrations VALUES ('99.00.00', 'pre', '99.00.00_01_pre_x.sql', '')";
    admin.batch_execute(newer).await.unwrap();
    assert!(matches!(problem(refusal(database.dsn()).await), SchemaProblem::TooNew { .. }));
    assert!(matches!(problem(opened.check_schema().await.unwrap_err()), SchemaProblem::TooNew { .. }));

    admin.batch_execute("DELETE FROM taskq.schema_migrations WHERE phase = 'pre'").await.unwrap();
    assert!(matches!(problem(refusal(database.dsn()).await), SchemaProblem::TooOld { .. }));
}

#[tokio::test]
async fn without_the_check_calls_name_what_is_missing() {
    let database = empty().await;
    let options = ConnectOptions::new().check_schema(false);
    let store = PostgresStore::connect(database.dsn(), options).await.unwrap();
    let error = store.enqueue(vec![job("q")]).await.unwrap_err();
    assert!(matches!(error, StoreError::Schema(SchemaProblem::Missing { .. })), "{error:?}");
    let error = store.stats().await.unwrap_err();
    assert!(matches!(error, StoreError::Schema(SchemaProblem::Missing { .. })), "{error:?}");
}

#[tokio::test]
async fn a_role_without_rights_is_told_which_it_needs() {
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    let role = format!("role_{}", database.name());
    admin.batch_execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'secret'")).await.unwrap();
    let dsn = as_role(&database, &role, "secret");
    let error = refusal(&dsn).await;
    admin.batch_execute(&format!("DROP ROLE {role}")).await.unwrap();
    assert!(
        matches!(&error, StoreError::Denied { missing, .. } if missing == "USAGE on schema \"taskq\""),
        "{error}"
    );
}

#[tokio::test]
async fn hostile_defaults_change_nothing() {
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    for setting in [
        "default_transaction_isolation = 'serializable'",
        "default_transaction_read_only = on",
        "statement_timeout = '1ms'",
        "lock_timeout = '1ms'",
        "search_path = ''",
        "enable_indexscan = off",
        "TimeZone = 'Asia/Kolkata'",
        "IntervalStyle = 'iso_8601'",
        "DateStyle = 'SQL, DMY'",
    ] {
        admin.batch_execute(&format!("ALTER DATABASE \"{}\" SET {setting}", database.name())).await.unwrap();
    }
    let store = store(&database).await;
    let worker = register(&store).await;
    let mut scheduled = job("q");
    scheduled.schedule = Schedule::After(Duration::from_millis(1_500));
    let id = scheduled.id;
    store.enqueue(vec![job("q"), scheduled]).await.unwrap();
    let request = taskq_core::store::ClaimRequest {
        worker,
        queues: vec![taskq_core::store::QueueSlots { queue: queue("q"), slots: 5, turn: None }],
        lease: Duration::from_mins(10),
        oversample: 2,
    };
    assert_eq!(store.claim(request).await.unwrap().jobs.len(), 1);
    let record = store.job(id).await.unwrap().unwrap();
    let wait = record.scheduled_at.duration_since(record.created_at);
    assert_eq!(wait, Duration::from_millis(1_500).try_into().unwrap());
}

#[tokio::test]
async fn each_role_has_one_connection_and_they_go_with_the_store() {
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    let store = store(&database).await;
    store.enqueue(vec![job("q")]).await.unwrap();
    assert_eq!(sessions(&database, &admin).await, ["taskq:client"]);
    let worker = register(&store).await;
    let epoch = store.heartbeat(beat(worker)).await.unwrap().leadership.unwrap();
    let mut wakes = store.wakes();
    hear(&mut wakes, &Wake::Everything).await;
    store.sweep(Sweep::Promote, SweepCall::new(worker, epoch, 10)).await.unwrap();
    // Many calls at once share their role's connection.
    let calls = (0..50).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.enqueue(vec![job("q")]).await.map(drop) })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    let roles = ["taskq:claim", "taskq:client", "taskq:control", "taskq:sweep"];
    assert_eq!(sessions(&database, &admin).await, roles);
    drop(store);
    assert!(wakes.next().await.is_none_or(|wake| wake != Wake::Everything));
    wait_until("the sessions end", PATIENCE, async || sessions(&database, &admin).await.is_empty()).await;
}

#[tokio::test]
async fn wake_ups_go_on_after_the_listening_session_was_terminated() {
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    let store = store(&database).await;
    let mut wakes = store.wakes();
    hear(&mut wakes, &Wake::Everything).await;
    terminate(&database, &admin, "taskq:claim").await;
    hear(&mut wakes, &Wake::Silence).await;
    hear(&mut wakes, &Wake::Everything).await;
    store.enqueue(vec![job("q")]).await.unwrap();
    hear(&mut wakes, &Wake::Ready(queue("q"))).await;
}

#[tokio::test]
async fn calls_work_again_after_every_session_was_terminated() {
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    let store = store(&database).await;
    let worker = register(&store).await;
    for _ in 0..3 {
        terminate(&database, &admin, "taskq:%").await;
        // A call may meet the broken connection once; that failure is transient.
        wait_until("an enqueue", PATIENCE, async || retried(store.enqueue(vec![job("q")]).await)).await;
        wait_until("a beat", PATIENCE, async || retried(store.heartbeat(beat(worker)).await)).await;
    }
}

fn retried<T>(result: Result<T, StoreError>) -> bool {
    match result {
        Ok(_) => true,
        Err(error) if error.is_transient() => false,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn statements_that_the_server_forgot_are_asked_for_anew() {
    let database = migrated().await;
    let store = store(&database).await;
    store.enqueue(vec![job("q")]).await.unwrap();
    assert_eq!(store.queues().await.unwrap().len(), 1);
    let admin = client(database.dsn()).await;
    // A cached plan whose result type changes under it (0A000).
    let change = "ALTER TABLE taskq.queues ALTER COLUMN mode TYPE varchar(20)";
    admin.batch_execute(change).await.unwrap();
    assert_eq!(store.queues().await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_enqueue_that_waits_for_its_key_holds_up_no_other_and_gives_up() {
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    let store = store(&database).await;
    let keyed = NewJob { idempotency_key: Some("k".to_owned().try_into().unwrap()), ..job("q") };
    let taking =
        r#"BEGIN; SELECT * FROM taskq.enqueue('{"actor": "a", "payload": 1, "idempotency_key": "k"}')"#;
    admin.batch_execute(taking).await.unwrap();
    let observer = client(database.dsn()).await;
    // What the connection and its statements need first shall not be part of the wait.
    store.enqueue(vec![job("q")]).await.unwrap();
    let mut waiting = tokio::spawn({
        let (store, keyed) = (Arc::clone(&store), keyed.clone());
        async move { store.enqueue(vec![keyed]).await }
    });
    let blocked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0";
    wait_until("the key is waited for", PATIENCE, async || {
        observer.query_one(blocked, &[]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;
    // More than one: what waited behind the key would come through at the very moment when the wait ends.
    for _ in 0..3 {
        store.enqueue(vec![job("q")]).await.unwrap();
    }
    assert!(!waiting.is_finished(), "it was waited for");
    let given_up = (&mut waiting).await.unwrap();
    assert!(matches!(given_up, Err(StoreError::Busy { .. })), "{given_up:?}");
    admin.batch_execute("COMMIT").await.unwrap();
    let answer = store.enqueue(vec![keyed]).await.unwrap();
    assert_eq!(answer[0].outcome, EnqueueOutcome::Existing);
}

#[tokio::test]
async fn every_job_of_a_burst_is_told_of_and_few_notifications_are_sent() {
    let database = migrated().await;
    let listening = store(&database).await;
    let mut wakes = listening.wakes();
    hear(&mut wakes, &Wake::Everything).await;
    let store = store(&database).await;
    // All at once: one after the other they might each take longer than the window.
    let burst = (0..100).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.enqueue(vec![job("q")]).await.map(drop) })
    });
    for call in burst.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    // Of two calls at once, the first tells of its own job; what the second owes is sent before the store goes. A store
    // that is dropped waits only a moment for that, which a busy machine may spend otherwise: several have a try.
    drop(store);
    let names: Vec<_> = (0..5).map(|n| format!("last{n}")).collect();
    for name in &names {
        let store = crate::database::store(&database).await;
        let (one, two) = tokio::join!(store.enqueue(vec![job(name)]), store.enqueue(vec![job(name)]));
        one.unwrap();
        two.unwrap();
    }
    let (mut of_burst, mut of_last) = (0, HashMap::new());
    wait_for("both wake-ups of one of the last queues", PATIENCE, async || {
        match wakes.next().await {
            Some(Wake::Ready(name)) if name == queue("q") => of_burst += 1,
            Some(Wake::Ready(name)) => *of_last.entry(name).or_insert(0) += 1,
            other => panic!("{other:?}"),
        }
        of_last.values().any(|count| *count == 2).then_some(())
    })
    .await;
    assert!((1..100).contains(&of_burst), "{of_burst} for 100 jobs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_blocked_user_runtime_does_not_stop_the_engine() {
    let database = migrated().await;
    let store = store(&database).await;
    let worker = register(&store).await;
    let engine = store.runtime().unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let beating = Arc::clone(&store);
    engine.spawn(async move { send.send(beating.heartbeat(beat(worker)).await) });
    // Blocks this runtime's only thread.
    let reply = receive.recv_timeout(PATIENCE).unwrap().unwrap();
    assert!(reply.leadership.is_some());
}

#[tokio::test]
async fn a_store_may_be_dropped_on_its_own_engine() {
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    let store = store(&database).await;
    store.enqueue(vec![job("q")]).await.unwrap();
    let engine = store.runtime().unwrap();
    engine.spawn(async move { drop(store) });
    wait_until("the sessions end", PATIENCE, async || sessions(&database, &admin).await.is_empty()).await;
}
