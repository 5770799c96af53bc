//! The feed of events beside transactions that are under way, and the time limit of a sweep.

use std::time::Duration;

use taskq_core::model::{EventCursor, EventRecord, WorkerId};
use taskq_core::store::{Beat, Registration, Store, StoreError, Sweep, SweepCall, SweepProbe};
use taskq_postgres::PostgresStore;
use taskq_testkit::{TestDatabase, wait_until};
use tokio_postgres::Client;

use crate::database::{PATIENCE, client, migrated, store};

/// How long what must be told may be held back: by any transaction of the whole server, other tests' included.
const HELD_BACK: Duration = Duration::from_mins(2);

/// Writes an event as a transaction of a user's program would, by hand.
async fn write(session: &Client, kind: &str) {
    let sql = format!(
        "INSERT INTO taskq.job_events (job_id, occurred_at, kind) VALUES (gen_random_uuid(), now(), '{kind}')"
    );
    session.batch_execute(&sql).await.unwrap();
}

/// A reader that keeps everything it was told.
struct Reader<'s> {
    store: &'s PostgresStore,
    next: EventCursor,
    told: Vec<EventRecord>,
}

impl<'s> Reader<'s> {
    fn new(store: &'s PostgresStore) -> Self {
        Self { store, next: EventCursor::START, told: Vec::new() }
    }

    async fn read(&mut self) {
        // Pages of one, so that every place is one to go on from.
        loop {
            let page = self.store.events(Some(self.next), 1).await.unwrap();
            let is_last = page.events.is_empty();
            self.next = page.next;
            self.told.extend(page.events);
            if is_last {
                return;
            }
        }
    }

    async fn until(&mut self, kinds: &[&str]) {
        let deadline = std::time::Instant::now() + HELD_BACK;
        loop {
            self.read().await;
            if self.kinds() == kinds {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "told {:?} instead of {kinds:?}", self.kinds());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn kinds(&self) -> Vec<&str> {
        self.told.iter().map(|event| event.kind.as_str()).collect()
    }
}

async fn scene() -> (TestDatabase, std::sync::Arc<PostgresStore>, Client, Client) {
    let database = migrated().await;
    let store = store(&database).await;
    let (one, other) = (client(database.dsn()).await, client(database.dsn()).await);
    (database, store, one, other)
}

/// A writer that began before the reader's position and commits after it: nothing appears behind the reader.
#[tokio::test]
async fn nothing_appears_behind_a_reader() {
    let (_database, store, early, late) = scene().await;
    let mut reader = Reader::new(&store);
    write(&late, "first").await;
    reader.until(&["first"]).await;

    // It has its transaction id, and its event's id, before the others have theirs.
    early.batch_execute("BEGIN").await.unwrap();
    write(&early, "early").await;
    for kind in ["second", "third"] {
        write(&late, kind).await;
    }
    for _ in 0..3 {
        reader.read().await;
        assert_eq!(reader.kinds(), ["first"], "what was committed meanwhile is held back");
    }
    early.batch_execute("COMMIT").await.unwrap();
    reader.until(&["first", "early", "second", "third"]).await;
    assert!(reader.told.windows(2).all(|pair| pair[0].cursor < pair[1].cursor));
}

/// A writer that began long before anything that was read, and one whose transaction is undone.
#[tokio::test]
async fn a_writer_from_long_before_is_told_when_it_commits() {
    let (_database, store, ancient, late) = scene().await;
    let mut reader = Reader::new(&store);
    // Without a transaction id it holds nothing back.
    ancient.batch_execute("BEGIN; SELECT count(*) FROM taskq.jobs").await.unwrap();
    for kind in ["one", "two"] {
        write(&late, kind).await;
    }
    reader.until(&["one", "two"]).await;
    // Now it writes, behind all that was read, and its id is younger.
    write(&ancient, "ancient").await;
    write(&late, "three").await;
    reader.read().await;
    assert_eq!(reader.kinds(), ["one", "two"]);
    ancient.batch_execute("COMMIT; BEGIN").await.unwrap();
    reader.until(&["one", "two", "ancient", "three"]).await;
    write(&ancient, "undone").await;
    write(&late, "four").await;
    ancient.batch_execute("ROLLBACK").await.unwrap();
    reader.until(&["one", "two", "ancient", "three", "four"]).await;
}

/// A reader that comes back later sees exactly the rest, whatever was under way when it left.
#[tokio::test]
async fn a_reader_that_comes_back_misses_nothing() {
    let (_database, store, open, late) = scene().await;
    open.batch_execute("BEGIN").await.unwrap();
    write(&open, "open").await;
    write(&late, "closed").await;
    let mut first = Reader::new(&store);
    first.read().await;
    let left_at = first.next.to_string();
    let now = store.events(None, 1).await.unwrap().next;
    open.batch_execute("COMMIT").await.unwrap();
    for from in [left_at.parse().unwrap(), now] {
        let mut second = Reader { store: &store, next: from, told: Vec::new() };
        second.until(&["open", "closed"]).await;
    }
}

/// A batch that takes too long is given up whole, says so, and leaves the connection as it was.
#[tokio::test]
async fn a_sweep_is_given_up_at_its_time_limit() {
    let database = migrated().await;
    let store = store(&database).await;
    let admin = client(database.dsn()).await;
    let worker = WorkerId::new();
    let (queues, actors) =
        (vec!["q".to_owned().try_into().unwrap()], vec!["a".to_owned().try_into().unwrap()]);
    let lease = Duration::from_mins(10);
    store.register_worker(Registration { worker, queues, actors, lease, info: None }).await.unwrap();
    let beat = Beat { worker, lease, progress: Vec::new(), leadership: Some(lease) };
    let epoch = store.heartbeat(beat).await.unwrap().leadership.unwrap();
    admin
        .batch_execute(
            "INSERT INTO taskq.job_events (job_id, occurred_at, kind)
             SELECT gen_random_uuid(), now() - interval '8 days', n::text FROM generate_series(1, 3) n;
             CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN PERFORM pg_sleep(CASE old.kind WHEN '1' THEN 0 ELSE 60 END); RETURN old; END $$;
             CREATE TRIGGER dawdle BEFORE DELETE ON taskq.job_events FOR EACH ROW EXECUTE FUNCTION dawdle()",
        )
        .await
        .unwrap();
    let batch = |limit| SweepCall {
        timeout: Some(Duration::from_millis(50)),
        ..SweepCall::new(worker, epoch, limit)
    };
    for _ in 0..2 {
        let error = store.sweep(Sweep::Events, batch(10)).await.unwrap_err();
        assert!(matches!(error, StoreError::TimedOut { .. }) && error.is_transient(), "{error}");
    }
    let left = "SELECT count(*) FROM taskq.job_events";
    assert_eq!(admin.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 3, "nothing was committed");
    // The next call on the same connection has its own limit.
    let generous = SweepCall { timeout: Some(Duration::from_mins(1)), ..batch(1) };
    assert_eq!(store.sweep(Sweep::Events, generous).await.unwrap().rows, 1);
    store.sweeps_due(worker, epoch, vec![SweepProbe::new(Sweep::Events)], None).await.unwrap();
    let sessions = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'taskq:sweep' AND state <> 'idle'";
    wait_until("no transaction is left open", PATIENCE, async || {
        admin.query_one(sessions, &[]).await.unwrap().get::<_, i64>(0) == 0
    })
    .await;
}
