//! Roles: what each kind may do, and that it may do nothing else.

use std::collections::BTreeSet;
use std::time::Duration;

use taskq_core::model::{ActorName, Json, NewJob, PAYLOAD_LIMIT, QueueName, WorkerId};
use taskq_core::store::{
    ActorChanges, ClaimRequest, JobFilter, JobMatch, LanePart, PruneCall, PruneMode, QueueMode, QueueSlots,
    Setting, Store, StoreError,
};
use taskq_postgres::{MigrateError, Migrator, RoleKind, SchemaName};
use taskq_testkit::TestDatabase;
use tokio_postgres::Client;

use crate::database::{as_role, client, connect_as, create_role, empty, migrated};

/// A role of the test's own on a database of the test's own.
struct Role {
    database: TestDatabase,
    admin: Client,
    name: String,
}

impl Role {
    async fn new() -> Self {
        let database = migrated().await;
        let admin = client(database.dsn()).await;
        let name = format!("role_{}", database.name());
        admin.batch_execute(&create_role(&name)).await.unwrap();
        Self { database, admin, name }
    }

    async fn of(kind: RoleKind) -> Self {
        let role = Self::new().await;
        role.migrator().grant(&role.name, kind).await.unwrap();
        role
    }

    fn migrator(&self) -> Migrator {
        Migrator::new(self.database.dsn(), SchemaName::default()).unwrap()
    }

    async fn session(&self) -> Client {
        client(&as_role(&self.database, &self.name)).await
    }

    /// What the role may do, of everything that there is: `privilege object`.
    async fn may(&self) -> BTreeSet<String> {
        let sql = "
            SELECT a.privilege || ' ' || c.relname
            FROM pg_class c
            CROSS JOIN unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) a(privilege)
            WHERE c.relnamespace = 'taskq'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
                AND has_table_privilege($1::text, c.oid, a.privilege)
            UNION ALL
            SELECT a.privilege || ' ' || c.relname
            FROM pg_class c CROSS JOIN unnest('{USAGE,SELECT,UPDATE}'::text[]) a(privilege)
            -- PostgreSQL may ask for nothing of an index.
            WHERE c.relnamespace = 'taskq'::regnamespace AND c.relkind = 'S' AND has_sequence_privilege($1::text, c.oid, a.privilege)
            UNION ALL
            SELECT 'EXECUTE ' || p.proname FROM pg_proc p
            WHERE p.pronamespace = 'taskq'::regnamespace AND has_function_privilege($1::text, p.oid, 'EXECUTE')
            UNION ALL
            SELECT a.privilege || ' taskq' FROM unnest('{USAGE,CREATE}'::text[]) a(privilege)
            WHERE has_schema_privilege($1::text, 'taskq', a.privilege)";
        self.admin.query(sql, &[&self.name]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }

    async fn drop(self) {
        let name = &self.name;
        self.admin.batch_execute(&format!("DROP OWNED BY {name}; DROP ROLE {name}")).await.unwrap();
    }
}

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

fn filter() -> JobFilter {
    JobFilter { limit: 10, ..JobFilter::default() }
}

fn job() -> NewJob {
    let payload = Json::from_value(&"secret", PAYLOAD_LIMIT).unwrap();
    NewJob::new(queue(), ActorName::new("a").unwrap(), payload)
}

#[track_caller]
fn assert_denied<T: std::fmt::Debug>(result: Result<T, StoreError>, missing: &str, kinds: &str) {
    let error = result.unwrap_err();
    let StoreError::Denied { missing: said, remedy } = &error else { panic!("{error:?}") };
    assert!(said.contains(missing), "{said}");
    assert!(remedy.contains(kinds), "{remedy}");
}

/// What the list says of a kind.
async fn listed(role: &Role, kind: RoleKind) -> BTreeSet<String> {
    let sql = "SELECT CASE r.object WHEN 'table' THEN 'SELECT ' ELSE 'EXECUTE ' END || r.name
        FROM taskq.rights() r WHERE $1 = ANY (r.kinds)";
    role.admin.query(sql, &[&kind.as_str()]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn each_kind_may_do_what_is_listed_and_nothing_else() {
    let role = Role::new().await;
    assert_eq!(role.may().await, BTreeSet::new(), "a role may do nothing that it was not granted");
    for kind in RoleKind::ALL {
        role.migrator().grant(&role.name, kind).await.unwrap();
        let mut expected = listed(&role, kind).await;
        expected.insert("USAGE taskq".to_owned());
        assert_eq!(role.may().await, expected, "{kind}");
        assert!(!expected.is_empty());
    }
    assert!(role.migrator().revoke(&role.name).await.unwrap());
    assert_eq!(role.may().await, BTreeSet::new());
    assert!(!role.migrator().revoke(&role.name).await.unwrap(), "there is nothing left to take");
    role.drop().await;
}

#[tokio::test]
async fn every_table_and_function_has_its_place_in_the_list() {
    let database = migrated().await;
    let admin = client(database.dsn()).await;
    let names = async |sql: &str| -> BTreeSet<String> {
        admin.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    };
    let listed = names("SELECT object || ' ' || name FROM taskq.rights()").await;
    let tables = "SELECT 'table ' || c.relname FROM pg_class c
        WHERE c.relnamespace = 'taskq'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm') AND NOT c.relispartition";
    // What runs with its owner's rights is there for others.
    let functions = "SELECT 'function ' || p.proname FROM pg_proc p
        WHERE p.pronamespace = 'taskq'::regnamespace AND p.prosecdef";
    let mut expected = names(tables).await;
    expected.extend(names(functions).await);
    // They read nothing.
    expected.extend(["clock", "event_horizon", "setting_problem"].map(|name| format!("function {name}")));
    assert_eq!(listed, expected, "say in sql/functions/rights.sql which roles may use it");

    let open = "SELECT p.proname::text FROM pg_proc p
        WHERE p.pronamespace = 'taskq'::regnamespace AND p.prosecdef
            AND NOT ('search_path=pg_catalog, pg_temp' = ANY (coalesce(p.proconfig, '{}')))";
    assert_eq!(
        names(open).await,
        BTreeSet::new(),
        "what runs with its owner's rights has a fixed search path"
    );
    let everybody = "SELECT p.proname::text FROM pg_proc p
        WHERE p.pronamespace = 'taskq'::regnamespace AND (p.proacl IS NULL
            OR EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = 0))";
    assert_eq!(names(everybody).await, BTreeSet::new(), "nothing is everybody's");
}

#[tokio::test]
async fn who_may_enqueue_may_do_nothing_else() {
    let role = Role::of(RoleKind::EnqueueOnly).await;
    let store = connect_as(&role.database, &role.name).await;
    let mut keyed = job();
    keyed.idempotency_key = Some("k".parse().unwrap());
    store.enqueue(vec![job()]).await.unwrap();
    store.enqueue(vec![keyed, job()]).await.unwrap();
    // Enough for a copy.
    let answers = store.enqueue((0..2_000).map(|_| job()).collect()).await.unwrap();
    assert_eq!(answers.len(), 2_000);
    let session = role.session().await;
    for call in [
        "SELECT taskq.enqueue('{\"actor\": \"a\", \"payload\": 1}')",
        "SELECT taskq.enqueue_many('[{\"actor\": \"a\", \"payload\": 1}]')",
        "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT taskq.enqueue('{\"actor\": \"a\", \"payload\": 1}'); COMMIT",
    ] {
        session.batch_execute(call).await.unwrap();
    }

    let id = answers[0].id;
    assert_denied(store.jobs(filter()).await, "SELECT on table \"taskq\".jobs", "read-only");
    assert_denied(
        store.cancel(vec![id], None).await,
        "EXECUTE on function \"taskq\".cancel",
        "operator|worker",
    );
    assert_denied(store.retry(vec![id]).await, "retry", "operator|worker");
    assert_denied(store.pause(LanePart::Queue(queue())).await, "pause", "operator|worker");
    assert_denied(store.set_setting(Setting::EventRetentionBatchSize(1)).await, "set_setting", "operator");
    refuses(&session, PAYLOADS).await;
    refuses(&session, WORK).await;
    refuses(&session, WRITES).await;
    drop(store);
    role.drop().await;
}

/// Ways to see what a job is about.
const PAYLOADS: &[&str] = &[
    "SELECT payload FROM taskq.jobs",
    "SELECT count(*) FROM taskq.jobs",
    "COPY taskq.jobs TO STDOUT",
    "SELECT error FROM taskq.job_attempts",
    "SELECT detail FROM taskq.job_events",
    "SELECT * FROM taskq.staged_documents()",
    "CREATE TEMP TABLE mine (LIKE taskq.jobs); CREATE TEMP VIEW all_jobs AS SELECT * FROM taskq.jobs; SELECT * FROM all_jobs",
];

/// Ways to take part in the work.
const WORK: &[&str] = &[
    "SELECT taskq.register_worker(gen_random_uuid(), '{default}', '{a}', '30 s', NULL)",
    "SELECT taskq.claim('{default}', 1, gen_random_uuid(), '30 s')",
    "SELECT taskq.claim_slots(gen_random_uuid(), '{default}', '{1}', '30 s')",
    "SELECT taskq.settle(gen_random_uuid(), '[]')",
    "SELECT taskq.complete(gen_random_uuid(), gen_random_uuid(), 1)",
    "SELECT taskq.heartbeat(gen_random_uuid(), '30 s', NULL)",
    "SELECT taskq.release_worker(gen_random_uuid())",
    "SELECT taskq.promote(gen_random_uuid(), 1, 1)",
    "SELECT taskq.reclaim(gen_random_uuid(), 1, 1)",
    "SELECT taskq.sweep_events(gen_random_uuid(), 1, 1)",
];

/// Ways to change something that are nobody's but the owner's.
const WRITES: &[&str] = &[
    "INSERT INTO taskq.settings VALUES ('event_level', '\"all\"')",
    "UPDATE taskq.jobs SET priority = 9",
    "DELETE FROM taskq.jobs",
    "DELETE FROM taskq.workers",
    "DELETE FROM taskq.job_events",
    "UPDATE taskq.queues SET paused_at = now()",
    "TRUNCATE taskq.jobs",
    "SELECT FROM taskq.jobs FOR UPDATE",
    "DO $$ BEGIN LOCK TABLE taskq.jobs IN SHARE MODE; END $$",
    "ALTER TABLE taskq.jobs ADD COLUMN mine integer",
    "CREATE INDEX ON taskq.jobs (actor)",
    "CREATE TABLE taskq.mine ()",
    "CREATE FUNCTION taskq.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "CREATE OR REPLACE FUNCTION taskq.clock() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT now()'",
    "DROP FUNCTION taskq.clock()",
    "ALTER FUNCTION taskq.clock() SET search_path = public",
    "DROP SCHEMA taskq CASCADE",
    "SELECT taskq.grant_role(current_user::text, 'operator')",
    "SELECT taskq.revoke_role(current_user::text)",
    "GRANT SELECT ON taskq.jobs TO PUBLIC",
    "INSERT INTO taskq.granted_roles VALUES ('x', 'worker')",
    "INSERT INTO taskq.schema_migrations VALUES ('1', 'pre', 'x', 'x')",
];

/// Tries each statement and expects it to be denied for want of a privilege, and that nothing more is said than the name.
async fn refuses(session: &Client, statements: &[&str]) {
    for statement in statements {
        let said = session.batch_execute(statement).await;
        // A warning instead of an error, as GRANT without the right to grant gives, leaves nothing granted either.
        if statement.starts_with("GRANT") && said.is_ok() {
            continue;
        }
        let error = said.expect_err(statement);
        assert_eq!(
            error.code().map(tokio_postgres::error::SqlState::code),
            Some("42501"),
            "{statement}: {error}"
        );
    }
}

#[tokio::test]
async fn who_may_read_changes_nothing() {
    let role = Role::of(RoleKind::ReadOnly).await;
    role.admin.batch_execute("SELECT taskq.enqueue('{\"actor\": \"a\", \"payload\": 1}')").await.unwrap();
    let store = connect_as(&role.database, &role.name).await;
    let jobs = store.jobs(filter()).await.unwrap();
    assert_eq!(jobs.len(), 1);
    let id = jobs[0].id;
    store.job(id).await.unwrap().unwrap();
    store.attempts(id).await.unwrap();
    store.events(None, 10).await.unwrap();
    store.queues().await.unwrap();
    store.stats().await.unwrap();
    store.workers().await.unwrap();
    store.leader().await.unwrap();
    store.sweeps().await.unwrap();
    store.settings().await.unwrap();
    store.endings(vec![id]).await.unwrap();
    store.paused_actors().await.unwrap();

    assert_denied(store.enqueue(vec![job()]).await, "EXECUTE on function", "enqueue-only|operator|worker");
    assert_denied(store.cancel(vec![id], None).await, "cancel", "operator|worker");
    let session = role.session().await;
    refuses(&session, WORK).await;
    refuses(&session, WRITES).await;
    refuses(
        &session,
        &["SELECT taskq.enqueue('{}')", "SELECT taskq.cancel('{}')", "SELECT taskq.prepare_staging()"],
    )
    .await;
    drop(store);
    role.drop().await;
}

#[tokio::test]
async fn a_worker_and_an_operator_have_their_bounds() {
    let role = Role::of(RoleKind::Worker).await;
    let store = connect_as(&role.database, &role.name).await;
    store.enqueue(vec![job()]).await.unwrap();
    assert_denied(store.set_setting(Setting::EventRetentionBatchSize(1)).await, "set_setting", "operator");
    let mode = store.set_queue(queue(), QueueMode::RoundRobin, 10).await;
    assert_denied(mode, "set_queue", "operator");
    let prune = PruneCall {
        jobs: JobMatch::default(),
        older_than: Duration::ZERO,
        limit: 10,
        after: None,
        mode: PruneMode::Delete,
    };
    assert_denied(store.prune(prune.clone()).await, "prune", "operator");
    let actor = ActorName::new("a").unwrap();
    assert_denied(store.set_actor(actor.clone(), ActorChanges::default()).await, "set_actor", "operator");
    refuses(&role.session().await, WRITES).await;
    drop(store);

    role.migrator().grant(&role.name, RoleKind::Operator).await.unwrap();
    let store = connect_as(&role.database, &role.name).await;
    store.set_setting(Setting::EventRetentionBatchSize(1)).await.unwrap();
    store.set_queue(queue(), QueueMode::RoundRobin, 10).await.unwrap();
    store.prune(prune).await.unwrap();
    store.set_actor(actor, ActorChanges::default()).await.unwrap();
    let queues = vec![QueueSlots { queue: queue(), slots: 1, turn: None }];
    let lease = Duration::from_secs(30);
    let claim = ClaimRequest { worker: WorkerId::new(), queues, lease, oversample: 2 };
    assert_denied(store.claim(claim).await, "claim_slots", "worker");
    let session = role.session().await;
    refuses(&session, WORK).await;
    refuses(&session, WRITES).await;
    drop(store);
    role.drop().await;
}

/// A session could put a view of its own in the place of its staging table; what that view calls would run as the owner.
#[tokio::test]
async fn what_stands_in_for_the_staging_table_is_refused() {
    let role = Role::of(RoleKind::EnqueueOnly).await;
    let session = role.session().await;
    session
        .batch_execute(
            "CREATE FUNCTION pg_temp.steal() RETURNS integer LANGUAGE sql AS 'SELECT count(*)::integer FROM taskq.jobs';
            CREATE TEMP VIEW taskq_staged AS SELECT pg_temp.steal() AS nth, gen_random_uuid() AS id, 'q'::text AS queue,
                'a'::text AS actor, '1'::jsonb AS payload, 1 AS payload_version, 0::smallint AS priority, 1::smallint AS max_attempts,
                NULL::text AS notify, NULL::timestamptz AS scheduled_at, NULL::interval AS delay,
                NULL::timestamptz AS schedule_to_close, NULL::interval AS start_to_close, NULL::jsonb AS retry_policy,
                NULL::text AS trace_context, NULL::jsonb AS metadata, NULL::text[] AS tags, NULL::text AS fairness_key,
                NULL::text AS keep",
        )
        .await
        .unwrap();
    let said = session.batch_execute("SELECT taskq.enqueue_staged(1)").await.unwrap_err();
    assert_eq!(said.code().map(tokio_postgres::error::SqlState::code), Some("TQ002"), "{said}");
    assert!(
        said.to_string().contains("prepare_staging")
            || said.as_db_error().unwrap().message().contains("prepare_staging")
    );
    session
        .batch_execute("DROP VIEW taskq_staged; CREATE TEMP TABLE taskq_staged (nth integer)")
        .await
        .unwrap();
    let said = session.batch_execute("SELECT taskq.enqueue_staged(0)").await.unwrap_err();
    assert_eq!(said.code().map(tokio_postgres::error::SqlState::code), Some("TQ002"), "{said}");

    // The one that is made for it may be written and not read.
    session.batch_execute("DROP TABLE taskq_staged; SELECT taskq.prepare_staging()").await.unwrap();
    session.batch_execute("INSERT INTO taskq_staged (nth, id) VALUES (1, gen_random_uuid())").await.unwrap();
    refuses(&session, &["SELECT * FROM taskq_staged", "ALTER TABLE taskq_staged ADD COLUMN x integer"]).await;
    drop(session);
    role.drop().await;
}

#[tokio::test]
async fn who_cannot_be_granted_to_is_refused() {
    let role = Role::new().await;
    let invalid = async |name: &str, words: &str| {
        let error = role.migrator().grant(name, RoleKind::Worker).await.unwrap_err();
        assert!(matches!(&error, MigrateError::Store(StoreError::Invalid { .. })), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    invalid("nobody of that name", "there is no role").await;
    invalid("postgres", "superuser").await;
    let kind = role.admin.batch_execute(&format!("SELECT taskq.grant_role('{}', 'boss')", role.name)).await;
    assert_eq!(kind.unwrap_err().code().map(tokio_postgres::error::SqlState::code), Some("TQ002"));

    let other = Migrator::new(&as_role(&role.database, &role.name), SchemaName::default()).unwrap();
    let error = other.grant(&role.name, RoleKind::Operator).await.unwrap_err();
    assert!(matches!(&error, MigrateError::Store(StoreError::Denied { .. })), "{error}");
    assert!(error.to_string().contains("owns the schema"), "{error}");
    assert_eq!(role.may().await, BTreeSet::new());

    let nothing = empty().await;
    let migrator = Migrator::new(nothing.dsn(), SchemaName::default()).unwrap();
    let error = migrator.grant(&role.name, RoleKind::Worker).await.unwrap_err();
    assert!(matches!(&error, MigrateError::Store(StoreError::Schema(_))), "{error}");
    role.drop().await;
}

/// Functions of a later version are new objects, which nobody was granted; and PostgreSQL gives them to everybody.
#[tokio::test]
async fn an_upgrade_grants_what_is_new_and_takes_it_from_everybody() {
    let role = Role::of(RoleKind::Worker).await;
    let before = role.may().await;
    // As if the ledger were of an older set, without one of the functions.
    role.admin
        .batch_execute(
            "DROP FUNCTION taskq.claim; UPDATE taskq.schema_migrations SET checksum = 'older' WHERE phase = 'functions';
            GRANT EXECUTE ON FUNCTION taskq.settle TO PUBLIC; GRANT USAGE ON SCHEMA taskq TO PUBLIC",
        )
        .await
        .unwrap();
    assert_ne!(role.may().await, before);
    role.migrator().up(None).await.unwrap();
    assert_eq!(role.may().await, before);
    let nobody = Role {
        name: "pg_monitor".to_owned(),
        database: migrated().await,
        admin: client(role.database.dsn()).await,
    };
    assert_eq!(nobody.may().await, BTreeSet::new(), "everybody has nothing");

    // One that is gone stops no upgrade, and is told.
    let (database, admin, name) = (&role.database, &role.admin, role.name.clone());
    let gone = format!("gone_{}", database.name());
    admin
        .batch_execute(&format!("INSERT INTO taskq.granted_roles VALUES ('{gone}', 'worker')"))
        .await
        .unwrap();
    admin
        .batch_execute("UPDATE taskq.schema_migrations SET checksum = 'older' WHERE phase = 'functions'")
        .await
        .unwrap();
    role.migrator().up(None).await.unwrap();
    admin.batch_execute(&format!("REVOKE SELECT ON taskq.jobs FROM {name}")).await.unwrap();
    let granted = role.migrator().grants().await.unwrap();
    let told: Vec<_> = granted.iter().map(|it| (it.role.as_str(), it.kind, it.problems.as_slice())).collect();
    assert_eq!(
        told,
        [
            (gone.as_str(), RoleKind::Worker, ["there is no such role any more".to_owned()].as_slice()),
            (name.as_str(), RoleKind::Worker, ["lacks SELECT on TABLE taskq.jobs".to_owned()].as_slice()),
        ]
    );
    assert!(role.migrator().revoke(&gone).await.unwrap());
    role.drop().await;
}

/// Others may keep functions of theirs beside ours.
#[tokio::test]
async fn what_is_not_ours_is_left_alone() {
    let database = empty().await;
    let admin = client(database.dsn()).await;
    admin
        .batch_execute("CREATE FUNCTION public.theirs() RETURNS integer LANGUAGE sql AS 'SELECT 1'")
        .await
        .unwrap();
    let schema = SchemaName::new("public").unwrap();
    Migrator::new(database.dsn(), schema).unwrap().up(None).await.unwrap();
    let may = "SELECT has_function_privilege('pg_monitor', 'public.theirs()', 'EXECUTE'),
        has_schema_privilege('pg_monitor', 'public', 'USAGE'), has_function_privilege('pg_monitor', 'public.clock()', 'EXECUTE')";
    let row = admin.query_one(may, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1), row.get(2)), (true, true, false));
}
