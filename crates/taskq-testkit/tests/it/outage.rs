//! Sessions that end and servers that only read.

use std::time::Duration;

use taskq_testkit::{Options, PgSource, PrivateServer, shared_server, wait_until};
use tokio_postgres::{Client, NoTls};

const WITHIN: Duration = Duration::from_mins(1);

async fn connect(dsn: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(dsn, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Whether a write is refused because the transaction is read-only.
async fn refuses(client: &Client) -> bool {
    match client.batch_execute("CREATE TABLE IF NOT EXISTS written ()").await {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(error.code().map(tokio_postgres::error::SqlState::code), Some("25006"), "{error:?}");
            true
        }
    }
}

#[tokio::test]
async fn the_sessions_of_one_database_end_and_no_others() {
    let cluster = shared_server().await;
    let (one, other) = (cluster.empty_database().await.unwrap(), cluster.empty_database().await.unwrap());
    let clients = [one.connect().await.unwrap(), one.connect().await.unwrap()];
    let bystander = other.connect().await.unwrap();
    // The server may have sent a process of its own to clean up.
    assert!(cluster.terminate_backends(one.name()).await.unwrap() >= 2);
    for client in &clients {
        assert!(client.simple_query("SELECT 1").await.is_err());
    }
    bystander.simple_query("SELECT 1").await.unwrap();
    one.connect().await.unwrap().simple_query("SELECT 1").await.unwrap();
    assert!(cluster.terminate_backends("a\"b").await.is_err());
}

#[tokio::test]
async fn a_read_only_server_reads_and_writes_again_afterwards() {
    let server = PrivateServer::start(Options::fast(PgSource::from_env().unwrap())).await.unwrap();
    let client = connect(server.dsn()).await;
    assert!(!refuses(&client).await);
    for dropped in [false, true] {
        let read_only = server.cluster().make_read_only().await.unwrap();
        wait_until("a session that was there refuses to write", WITHIN, async || refuses(&client).await)
            .await;
        assert!(refuses(&connect(server.dsn()).await).await);
        client.simple_query("SELECT 1").await.unwrap();
        if dropped {
            drop(read_only);
        } else {
            read_only.end().await.unwrap();
        }
        assert!(!refuses(&connect(server.dsn()).await).await);
        wait_until("a session that was there writes again", WITHIN, async || !refuses(&client).await).await;
    }
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_read_only_database_leaves_the_others_alone() {
    let cluster = shared_server().await;
    let (one, other) = (cluster.empty_database().await.unwrap(), cluster.empty_database().await.unwrap());
    let client = one.connect().await.unwrap();
    let read_only = cluster.make_database_read_only(one.name()).await.unwrap();
    assert!(client.simple_query("SELECT 1").await.is_err(), "it would have gone on writing");
    assert!(refuses(&one.connect().await.unwrap()).await);
    assert!(!refuses(&other.connect().await.unwrap()).await);
    read_only.end().await.unwrap();
    assert!(!refuses(&one.connect().await.unwrap()).await);
}
