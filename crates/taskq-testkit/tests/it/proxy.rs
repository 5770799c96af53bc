//! The proxy between a real client and a real server.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::SinkExt;
use taskq_testkit::{Direction, Proxy, TestDatabase, shared_server, wait_until};
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};

const WITHIN: Duration = Duration::from_mins(1);

struct Scene {
    proxy: Proxy,
    /// Past the proxy.
    direct: Client,
    database: TestDatabase,
}

impl Scene {
    async fn new() -> Self {
        let database = shared_server().await.empty_database().await.unwrap();
        let direct = database.connect().await.unwrap();
        direct.batch_execute("CREATE TABLE notes (note text)").await.unwrap();
        Self { proxy: Proxy::start(database.dsn()).unwrap(), direct, database }
    }

    async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(self.proxy.dsn(), NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// The notes that are stored, in order.
    async fn notes(&self) -> String {
        let row =
            self.direct.query_one("SELECT coalesce(string_agg(note, ' ' ORDER BY note), '') FROM notes", &[]);
        row.await.unwrap().get(0)
    }

    /// How many other sessions the server has in this database.
    async fn sessions(&self) -> i64 {
        let query = "SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
        self.direct.query_one(query, &[]).await.unwrap().get(0)
    }
}

async fn note(client: &Client, note: &str) -> Result<(), tokio_postgres::Error> {
    client.execute("INSERT INTO notes VALUES ($1)", &[&note]).await.map(drop)
}

async fn answers(client: &Client) {
    timeout(WITHIN, client.simple_query("SELECT 1")).await.unwrap().unwrap();
}

/// That nothing comes can only be seen by waiting.
async fn stays_silent(client: &Client) {
    let answer = timeout(Duration::from_millis(200), client.simple_query("SELECT 1")).await;
    assert!(answer.is_err(), "{answer:?}");
}

#[tokio::test]
async fn without_faults_everything_passes() {
    let scene = Scene::new().await;
    let client = scene.connect().await.unwrap();
    assert_eq!(scene.proxy.connections(), 1);
    let long = "x".repeat(3_000_000);
    let echoed: String = client.query_one("SELECT $1::text", &[&long]).await.unwrap().get(0);
    assert_eq!(echoed, long);
    let (one, two, three) = tokio::join!(note(&client, "a"), note(&client, "b"), note(&client, "c"));
    assert!(one.is_ok() && two.is_ok() && three.is_ok());

    let sleeping = client.cancel_token();
    let (cancelled, slept) = tokio::join!(
        async {
            let query = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'
                         AND state = 'active' AND datname = current_database()";
            let asleep = async || scene.direct.query_opt(query, &[]).await.unwrap().is_some();
            wait_until("the query sleeps", WITHIN, asleep).await;
            sleeping.cancel_query(NoTls).await
        },
        client.simple_query("SELECT pg_sleep(60)"),
    );
    cancelled.unwrap();
    assert_eq!(slept.unwrap_err().code().unwrap().code(), "57014");

    drop(client);
    wait_until("the connection has ended", WITHIN, async || scene.proxy.connections() == 0).await;
    wait_until("the session has ended", WITHIN, async || scene.sessions().await == 0).await;
}

#[tokio::test]
async fn a_cut_ends_every_connection_on_both_sides() {
    let scene = Scene::new().await;
    let clients = [scene.connect().await.unwrap(), scene.connect().await.unwrap()];
    scene.proxy.cut();
    for client in &clients {
        assert!(note(client, "a").await.is_err());
    }
    wait_until("no session is left", WITHIN, async || scene.sessions().await == 0).await;
    assert_eq!(scene.proxy.connections(), 0);
    note(&scene.connect().await.unwrap(), "b").await.unwrap();
    assert_eq!(scene.notes().await, "b");
}

#[tokio::test]
async fn refused_connections_do_not_disturb_those_that_exist() {
    let scene = Scene::new().await;
    let client = scene.connect().await.unwrap();
    scene.proxy.refuse();
    assert!(scene.connect().await.is_err());
    answers(&client).await;
    scene.proxy.heal();
    answers(&scene.connect().await.unwrap()).await;
}

#[tokio::test]
async fn a_server_that_is_away_is_a_reset() {
    // Nobody listens on port 1.
    let proxy = Proxy::start("postgres://postgres@127.0.0.1:1/postgres").unwrap();
    assert!(timeout(WITHIN, tokio_postgres::connect(proxy.dsn(), NoTls)).await.unwrap().is_err());
}

#[tokio::test]
async fn a_delay_acts_on_connections_that_exist_and_ends_at_once() {
    const DELAY: Duration = Duration::from_millis(60);
    let scene = Scene::new().await;
    let client = scene.connect().await.unwrap();
    for (direction, least) in [(Direction::ToServer, 1), (Direction::ToClient, 1), (Direction::Both, 2)] {
        scene.proxy.delay(direction, DELAY);
        let start = Instant::now();
        client.simple_query("SELECT 1").await.unwrap();
        assert!(start.elapsed() >= DELAY * least, "{direction:?}: {:?}", start.elapsed());
        scene.proxy.heal();
    }
    scene.proxy.delay(Direction::Both, Duration::from_hours(1));
    stays_silent(&client).await;
    scene.proxy.delay(Direction::Both, Duration::ZERO);
    answers(&client).await;
}

#[tokio::test]
async fn a_black_hole_keeps_connections_open_and_gives_back_what_it_took() {
    let scene = Scene::new().await;
    let client = scene.connect().await.unwrap();

    scene.proxy.black_hole(Direction::ToServer);
    let (sent, ()) = tokio::join!(note(&client, "lost on the way"), async {
        stays_silent(&client).await;
        assert_eq!(scene.notes().await, "");
        scene.proxy.heal();
    });
    sent.unwrap();

    scene.proxy.black_hole(Direction::ToClient);
    let (sent, ()) = tokio::join!(client.simple_query("INSERT INTO notes VALUES ('unheard')"), async {
        wait_until("the note is stored", WITHIN, async || scene.notes().await.contains("unheard")).await;
        stays_silent(&client).await;
        scene.proxy.heal();
    });
    sent.unwrap();
}

#[tokio::test]
async fn in_a_black_hole_the_server_does_not_learn_that_a_client_is_gone() {
    let scene = Scene::new().await;
    let client = scene.connect().await.unwrap();
    scene.proxy.black_hole(Direction::Both);
    drop(client);
    assert!(timeout(Duration::from_millis(200), scene.connect()).await.is_err(), "accepted, never answered");
    assert_eq!(scene.sessions().await, 1);
    scene.proxy.heal();
    wait_until("the session has ended", WITHIN, async || scene.sessions().await == 0).await;
}

#[tokio::test]
async fn the_reply_is_swallowed_after_the_commit() {
    let scene = Scene::new().await;
    let client = scene.connect().await.unwrap();
    let neighbour = scene.connect().await.unwrap();
    let before = client.prepare("INSERT INTO notes VALUES ('before')").await.unwrap();
    let prepared = client.prepare("INSERT INTO notes VALUES ('prepared')").await.unwrap();

    let swallow = scene.proxy.swallow_reply("'prepared'");
    let (before, unheard) = tokio::join!(client.execute(&before, &[]), client.execute(&prepared, &[]));
    before.expect("what was answered before the cut arrives");
    let error = unheard.unwrap_err();
    assert!(error.is_closed() || error.code().is_none(), "the outcome is unknown: {error:?}");
    timeout(WITHIN, swallow.swallowed()).await.unwrap();
    assert_eq!(scene.notes().await, "before prepared");

    // It happens once, and to one connection.
    neighbour.execute("INSERT INTO notes VALUES ('prepared')", &[]).await.unwrap();
    wait_until("its session has ended", WITHIN, async || scene.sessions().await == 1).await;
}

#[tokio::test]
async fn of_a_transaction_the_reply_to_the_commit_is_swallowed() {
    let scene = Scene::new().await;
    let mut client = scene.connect().await.unwrap();
    let swallow = scene.proxy.swallow_reply("INSERT INTO notes");

    let transaction = client.transaction().await.unwrap();
    transaction.execute("INSERT INTO notes VALUES ('rolled back')", &[]).await.unwrap();
    transaction.rollback().await.unwrap();
    assert!(client.execute("INSERT INTO notes VALUES (1/0)", &[]).await.is_err());
    assert!(!swallow.has_happened());

    let transaction = client.transaction().await.unwrap();
    transaction.execute("INSERT INTO notes VALUES ('kept')", &[]).await.unwrap();
    assert!(transaction.commit().await.is_err());
    timeout(WITHIN, swallow.swallowed()).await.unwrap();
    assert_eq!(scene.notes().await, "kept");
}

#[tokio::test]
async fn a_copy_is_swallowed_like_any_statement() {
    let scene = Scene::new().await;
    let client = scene.connect().await.unwrap();
    let swallow = scene.proxy.swallow_reply("COPY notes");
    let sink = client.copy_in::<_, Bytes>("COPY notes FROM STDIN").await.unwrap();
    futures_util::pin_mut!(sink);
    sink.send(Bytes::from_static(b"copied\n")).await.unwrap();
    assert!(sink.finish().await.is_err());
    timeout(WITHIN, swallow.swallowed()).await.unwrap();
    assert_eq!(scene.notes().await, "copied");
}

#[tokio::test]
async fn a_proxy_that_is_dropped_takes_its_connections_along() {
    let Scene { proxy, direct, database } = Scene::new().await;
    let dsn = proxy.dsn().to_owned();
    let (client, connection) = tokio_postgres::connect(&dsn, NoTls).await.unwrap();
    tokio::spawn(connection);
    proxy.black_hole(Direction::Both);
    drop(proxy);
    assert!(client.simple_query("SELECT 1").await.is_err());
    assert!(tokio_postgres::connect(&dsn, NoTls).await.is_err());
    drop((direct, database));
}
