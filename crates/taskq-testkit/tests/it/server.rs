//! What a private server is and does while its owner lives.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use taskq_testkit::{Options, PgSource, PrivateServer, ServerError, Shutdown, wait_for};
use tokio_postgres::{Client, NoTls};

async fn start(options: Options) -> PrivateServer {
    PrivateServer::start(options).await.expect("the server starts")
}

fn source() -> PgSource {
    PgSource::from_env().expect("TASKQ_PG names a source")
}

async fn connect(dsn: &str) -> Option<Client> {
    let (client, connection) = tokio_postgres::connect(dsn, NoTls).await.ok()?;
    tokio::spawn(connection);
    Some(client)
}

async fn setting(client: &Client, name: &str) -> String {
    client.query_one("SELECT current_setting($1)", &[&name]).await.unwrap().get(0)
}

#[tokio::test]
async fn it_listens_on_the_loopback_alone_and_as_configured() {
    let options = Options::for_tests(source()).setting("max_connections", "33").setting("work_mem", "5MB");
    let server = start(options).await;
    let client = connect(server.dsn()).await.unwrap();

    for (name, value) in [
        ("listen_addresses", "127.0.0.1"),
        ("unix_socket_directories", ""),
        ("server_encoding", "UTF8"),
        ("lc_messages", "C"),
        ("fsync", "off"),
        ("full_page_writes", "off"),
        ("synchronous_commit", "on"),
        ("max_connections", "33"),
        ("work_mem", "5MB"),
        ("shared_preload_libraries", "pg_stat_statements"),
    ] {
        assert_eq!(setting(&client, name).await, value, "{name}");
    }
    assert_eq!(setting(&client, "port").await, server.port().to_string());
    assert!(setting(&client, "server_version").await.starts_with(&server.version().to_string()));
    assert_eq!(setting(&client, "data_directory").await, server.data_dir().to_str().unwrap());
    assert!(server.log_path().is_file());
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_durable_server_waits_for_the_disk_and_asks_for_its_password() {
    let server = start(Options::durable(source())).await;
    let client = connect(server.dsn()).await.unwrap();
    assert_eq!(setting(&client, "fsync").await, "on");
    assert_eq!(setting(&client, "full_page_writes").await, "on");

    let guess = format!("postgres://postgres:guess@127.0.0.1:{}/postgres", server.port());
    let error = tokio_postgres::connect(&guess, NoTls).await.err().unwrap();
    assert_eq!(error.code().unwrap().code(), "28P01");
}

#[tokio::test]
async fn its_files_and_process_are_not_roots_and_closed_to_others() {
    let server = start(Options::fast(source())).await;
    let directory = server.data_dir().parent().unwrap().metadata().unwrap();
    assert_ne!(directory.uid(), 0);
    assert_eq!(directory.mode() & 0o077, 0);
    if let Ok(process) = std::fs::metadata(format!("/proc/{}", server.pid().unwrap())) {
        assert_eq!(process.uid(), directory.uid());
    }
}

#[tokio::test]
async fn a_restart_keeps_port_and_data() {
    let server = start(Options::fast(source())).await;
    connect(server.dsn()).await.unwrap().batch_execute("CREATE TABLE kept AS SELECT 1 AS n").await.unwrap();
    for shutdown in [Shutdown::Fast, Shutdown::Immediate] {
        let before = server.pid().unwrap();
        server.restart(shutdown).await.unwrap();
        assert_ne!(server.pid().unwrap(), before);
        let client = connect(server.dsn()).await.unwrap();
        let row = client.query_one("SELECT n FROM kept", &[]).await.unwrap();
        assert_eq!(row.get::<_, i32>(0), 1);
    }
}

#[tokio::test]
async fn a_halted_server_refuses_connections_until_it_is_resumed() {
    let server = start(Options::fast(source())).await;
    server.halt(Shutdown::Fast).await.unwrap();
    assert!(connect(server.dsn()).await.is_none());
    assert!(matches!(server.halt(Shutdown::Fast).await, Err(ServerError::Step { step: "stop", .. })));

    server.resume().await.unwrap();
    wait_for("a connection", Duration::from_mins(1), async || connect(server.dsn()).await).await;
}

#[tokio::test]
async fn a_refused_setting_is_reported_in_the_servers_own_words() {
    let refused = PrivateServer::start(Options::fast(source()).setting("shared_buffers", "a lot")).await;
    let message = refused.err().unwrap().to_string();
    assert!(message.contains("start") && message.contains("shared_buffers"), "{message}");
}

#[tokio::test]
async fn a_directory_without_a_server_is_named() {
    let nowhere = PgSource::Directory(std::env::temp_dir());
    let message = PrivateServer::start(Options::fast(nowhere)).await.err().unwrap().to_string();
    assert!(message.ends_with("has no initdb"), "{message}");
    let message = "/no/such/place".parse::<PgSource>().unwrap().resolve().unwrap_err().to_string();
    assert!(message.starts_with("/no/such/place: No such file"), "{message}");
    assert!("".parse::<PgSource>().is_err());
}

#[tokio::test]
async fn an_installation_prefix_is_as_good_as_its_directory_of_programs() {
    let found = source().resolve().unwrap();
    let prefix = found.bin_dir().parent().unwrap().to_owned();
    assert_eq!(PgSource::Directory(prefix).resolve().unwrap(), found);
}
