//! Encrypted connections, several servers, and passwords that rotate.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use taskq_core::store::{Store, StoreError};
use taskq_postgres::{ConnectOptions, Migrator, PasswordCallback, PostgresStore, SchemaName};
use taskq_testkit::{FETCHED_VERSION, Options, PgSource, PrivateServer, TestDatabase, wait_until};
use tempfile::TempDir;

use crate::database::{PATIENCE, client, migrated};

/// A certification authority of the test's own.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Certificates are found by the name of who vouches for them.
        let name = format!("authority {}", uuid::Uuid::now_v7());
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let root = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), root }
    }

    /// A certificate and its key.
    fn vouch(&self, names: &[&str], common_name: &str, usage: ExtendedKeyUsagePurpose) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, common_name);
        params.extended_key_usages = vec![usage];
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// A server that encrypts, with a role that has to show a certificate and one that has to connect in the plain.
struct Encrypted {
    server: PrivateServer,
    files: TempDir,
    ours: Authority,
}

/// Says that a test has looked at nothing, past what keeps the output of tests that pass.
fn skip(why: &str) {
    let line = format!("skipped: {why}; `cargo xtask pg 15` has a server that encrypts\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

const ACCESS: &str = "
    hostssl all certified 127.0.0.1/32 cert
    hostnossl all plain 127.0.0.1/32 trust
    hostssl all encrypted 127.0.0.1/32 trust
    host all postgres 127.0.0.1/32 password
";

impl Encrypted {
    /// Starts it; `None` where the server was built without encryption.
    async fn start() -> Option<Self> {
        let ours = Authority::new();
        let (certificate, key) = ours.vouch(&["localhost"], "a server", ExtendedKeyUsagePurpose::ServerAuth);
        let source = PgSource::from_env().unwrap();
        let options = Options::fast(source.clone())
            .file("server.crt", certificate)
            .file("server.key", key)
            .file("root.crt", ours.root.clone())
            .setting("ssl", "on")
            .setting("ssl_cert_file", "../server.crt")
            .setting("ssl_key_file", "../server.key")
            .setting("ssl_ca_file", "../root.crt");
        let server = match PrivateServer::start(options).await {
            Err(error) if error.to_string().contains("SSL is not supported") => {
                let version = source.resolve().unwrap().version();
                // Of all that the suite runs on, only what is fetched may lack it.
                assert_eq!(version.to_string(), FETCHED_VERSION, "built without encryption: {error}");
                skip(&format!("PostgreSQL {version} was built without encryption"));
                return None;
            }
            server => server.unwrap(),
        };
        Migrator::new(server.dsn(), SchemaName::default()).unwrap().up(None).await.unwrap();
        let admin = client(server.dsn()).await;
        for role in ["certified", "plain", "encrypted"] {
            admin.batch_execute(&format!("CREATE ROLE {role} LOGIN SUPERUSER")).await.unwrap();
        }
        // Written by the server, whose files they are.
        let access: String = admin.query_one("SHOW hba_file", &[]).await.unwrap().get(0);
        let lines = format!("COPY (SELECT unnest(string_to_array('{ACCESS}', E'\\n'))) TO '{access}'");
        admin.batch_execute(&lines).await.unwrap();
        admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        let files = tempfile::tempdir().unwrap();
        fs::write(files.path().join("root.crt"), &ours.root).unwrap();
        fs::write(files.path().join("other.crt"), Authority::new().root).unwrap();
        Some(Self { server, files, ours })
    }

    fn file(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    /// Connects, and says whether the session is encrypted.
    async fn connect(&self, host: &str, user: &str, options: &str) -> Result<bool, StoreError> {
        let address = if host == "127.0.0.1" { String::new() } else { "hostaddr=127.0.0.1".to_owned() };
        let port = self.server.port();
        let password = self.server.dsn().split([':', '@']).nth(2).unwrap();
        let dsn = format!(
            "host={host} {address} port={port} user={user} password={password} dbname=postgres {options}"
        );
        let store = PostgresStore::connect(&dsn, ConnectOptions::new()).await?;
        let admin = client(self.server.dsn()).await;
        let sql = "SELECT bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
            WHERE a.application_name = 'taskq:client' AND a.usename = $1";
        let encrypted: bool = admin.query_one(sql, &[&user]).await.unwrap().get(0);
        drop(store);
        let left = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'taskq:%'";
        wait_until("the session ends", PATIENCE, async || {
            admin.query_one(left, &[]).await.unwrap().get::<_, i64>(0) == 0
        })
        .await;
        Ok(encrypted)
    }
}

#[tokio::test]
async fn each_sslmode_means_what_it_means_to_libpq() {
    let Some(server) = Encrypted::start().await else { return };
    let (root, other) = (server.file("root.crt"), server.file("other.crt"));
    for (user, options, encrypted) in [
        ("postgres", "sslmode=disable".to_owned(), false),
        ("postgres", "sslmode=allow".to_owned(), false),
        ("postgres", "sslmode=prefer".to_owned(), true),
        ("postgres", String::new(), true),
        ("postgres", "sslmode=require".to_owned(), true),
        ("postgres", format!("sslmode=require sslrootcert={root}"), true),
        ("postgres", format!("sslmode=verify-ca sslrootcert={root}"), true),
        ("postgres", format!("sslmode=verify-full sslrootcert={root}"), true),
        ("postgres", "sslmode=require channel_binding=prefer".to_owned(), true),
        ("postgres", "sslmode=require ssl_max_protocol_version=TLSv1.2".to_owned(), true),
        // What one way does not let in, the other does.
        ("encrypted", "sslmode=allow".to_owned(), true),
        ("plain", "sslmode=prefer".to_owned(), false),
    ] {
        let found = server.connect("localhost", user, &options).await;
        assert!(matches!(&found, Ok(found) if *found == encrypted), "{user} {options}: {found:?}");
    }
    // The name in the certificate counts for `verify-full` only.
    let options = format!("sslmode=verify-ca sslrootcert={root}");
    assert!(server.connect("127.0.0.1", "postgres", &options).await.unwrap());
    for (host, user, options, reason) in [
        ("127.0.0.1", "postgres", format!("sslmode=verify-full sslrootcert={root}"), "not valid for name"),
        ("elsewhere", "postgres", format!("sslmode=verify-full sslrootcert={root}"), "not valid for name"),
        ("localhost", "postgres", format!("sslmode=verify-ca sslrootcert={other}"), "UnknownIssuer"),
        ("localhost", "postgres", format!("sslmode=require sslrootcert={other}"), "UnknownIssuer"),
        ("localhost", "postgres", "sslrootcert=system".to_owned(), "UnknownIssuer"),
        (
            "localhost",
            "postgres",
            "sslmode=verify-ca sslrootcert=/no/such".to_owned(),
            "sslrootcert: there is no file /no/such",
        ),
        ("localhost", "plain", "sslmode=require".to_owned(), "plain"),
        ("localhost", "encrypted", "sslmode=disable".to_owned(), "encrypted"),
    ] {
        let error = server.connect(host, user, &options).await.unwrap_err();
        let StoreError::Refused { message } = &error else { panic!("{options}: {error:?}") };
        // A machine without roots of its own says so.
        let is_bare = options.contains("system") && message.contains("no root certificates");
        assert!(message.contains(reason) || is_bare, "{options}: {message}");
        assert!(!message.contains('\n'), "{message}");
    }
}

#[tokio::test]
async fn a_role_can_have_to_show_a_certificate() {
    let Some(server) = Encrypted::start().await else { return };
    let (certificate, key) = server.ours.vouch(&[], "certified", ExtendedKeyUsagePurpose::ClientAuth);
    let (theirs, their_key) = Authority::new().vouch(&[], "certified", ExtendedKeyUsagePurpose::ClientAuth);
    for (name, content) in
        [("own.crt", certificate), ("own.key", key), ("their.crt", theirs), ("their.key", their_key)]
    {
        fs::write(server.file(name), content).unwrap();
        fs::set_permissions(server.file(name), Permissions::from_mode(0o600)).unwrap();
    }
    let options = |name: &str| {
        let (certificate, key) = (server.file(&format!("{name}.crt")), server.file(&format!("{name}.key")));
        format!("sslmode=require sslcert={certificate} sslkey={key}")
    };
    assert!(server.connect("localhost", "certified", &options("own")).await.unwrap());
    for bad in
        ["sslmode=require".to_owned(), options("their"), format!("{} sslcertmode=disable", options("own"))]
    {
        let error = server.connect("localhost", "certified", &bad).await.unwrap_err();
        assert!(
            matches!(error, StoreError::Refused { .. } | StoreError::Unavailable { .. }),
            "{bad}: {error:?}"
        );
    }
    // A key that others can read is none.
    fs::set_permissions(server.file("own.key"), Permissions::from_mode(0o644)).unwrap();
    let error = server.connect("localhost", "certified", &options("own")).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Refused { message } if message.contains("sslkey") && message.contains("chmod")),
        "{error}"
    );
    fs::write(server.file("their.crt"), "no certificate").unwrap();
    let error = server.connect("localhost", "certified", &options("their")).await.unwrap_err();
    assert!(matches!(&error, StoreError::Refused { message } if message.contains("sslcert")), "{error}");
}

#[tokio::test]
async fn a_server_that_cannot_encrypt_is_told_apart() {
    let database = migrated().await;
    let with = |mode: &str| {
        let separator = if database.dsn().contains('?') { '&' } else { '?' };
        format!("{}{separator}sslmode={mode}", database.dsn())
    };
    for mode in ["disable", "allow", "prefer"] {
        PostgresStore::connect(&with(mode), ConnectOptions::new()).await.unwrap();
    }
    let error = PostgresStore::connect(&with("require"), ConnectOptions::new()).await.unwrap_err();
    assert!(matches!(&error, StoreError::Refused { message } if message.contains("TLS")), "{error:?}");
}

/// The host, port and rest of a DSN of a test's server.
fn parts(database: &TestDatabase) -> (String, String) {
    let config: tokio_postgres::Config = database.dsn().parse().unwrap();
    let password = String::from_utf8_lossy(config.get_password().unwrap_or_default()).into_owned();
    let rest = format!(
        "user={} password={password} dbname={} connect_timeout=5",
        config.get_user().unwrap(),
        database.name()
    );
    (config.get_ports()[0].to_string(), rest)
}

#[tokio::test]
async fn of_several_servers_the_first_that_will_do_is_taken() {
    let writable = migrated().await;
    let (port, rest) = parts(&writable);
    // Nobody listens on port 1.
    let dsn = format!("host=127.0.0.1,127.0.0.1 port=1,{port} {rest}");
    PostgresStore::connect(&dsn, ConnectOptions::new()).await.unwrap();

    let source = PgSource::from_env().unwrap();
    let options = Options::fast(source.clone()).setting("default_transaction_read_only", "on");
    let reading = PrivateServer::start(options).await.unwrap();
    let admin = client(reading.dsn()).await;
    admin.batch_execute("SET default_transaction_read_only = off").await.unwrap();
    admin.batch_execute(&format!("CREATE DATABASE {}", writable.name())).await.unwrap();
    admin.batch_execute("ALTER ROLE postgres PASSWORD 'same'").await.unwrap();
    let other = client(writable.cluster().dsn()).await;
    let role = format!("several_{}", writable.name());
    other.batch_execute(&format!("CREATE ROLE {role} SUPERUSER LOGIN PASSWORD 'same'")).await.unwrap();
    admin.batch_execute(&format!("CREATE ROLE {role} SUPERUSER LOGIN PASSWORD 'same'")).await.unwrap();
    let both = |target: &str| {
        format!(
            "host=127.0.0.1,127.0.0.1 port={},{port} user={role} password=same dbname={} target_session_attrs={target}",
            reading.port(),
            writable.name()
        )
    };
    // Only one of the two has the schema.
    for target in ["read-write"] {
        PostgresStore::connect(&both(target), ConnectOptions::new()).await.unwrap();
    }
    for target in ["any", "read-only", "primary", "prefer-standby"] {
        let error = PostgresStore::connect(&both(target), ConnectOptions::new()).await.unwrap_err();
        assert!(matches!(error, StoreError::Schema(_)), "{target}: {error:?}");
    }
    let error = PostgresStore::connect(&both("standby"), ConnectOptions::new()).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Unavailable { message, .. } if message.contains("is no standby")),
        "{error:?}"
    );
    other.batch_execute(&format!("DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn a_password_is_asked_for_at_every_connect() {
    let database = migrated().await;
    let admin = client(database.cluster().dsn()).await;
    let role = format!("rotating_{}", database.name());
    admin.batch_execute(&format!("CREATE ROLE {role} SUPERUSER LOGIN PASSWORD 'w1'")).await.unwrap();
    let config: tokio_postgres::Config = database.dsn().parse().unwrap();
    let dsn = format!(
        "host=127.0.0.1 port={} user={role} password=stale dbname={}",
        config.get_ports()[0],
        database.name()
    );
    let asked = Arc::new(AtomicUsize::new(0));
    let callback = PasswordCallback::new({
        let asked = Arc::clone(&asked);
        move || {
            let nth = asked.fetch_add(1, Ordering::SeqCst) + 1;
            async move { Ok::<_, std::io::Error>(format!("w{nth}")) }
        }
    });
    let options = || ConnectOptions::new().password_callback(callback.clone());
    let store = PostgresStore::connect(&dsn, options()).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    admin.batch_execute(&format!("ALTER ROLE {role} PASSWORD 'w2'")).await.unwrap();
    let end = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = $1";
    admin.query(end, &[&role]).await.unwrap();
    // The first call may meet the session that is gone.
    wait_until("a call on a new session", PATIENCE, async || store.queues().await.is_ok()).await;
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    drop(store);

    let failing = PasswordCallback::new(|| async { Err::<String, _>("the vault is sealed") });
    let error =
        PostgresStore::connect(&dsn, ConnectOptions::new().password_callback(failing)).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Password { message, .. } if message == "the vault is sealed"),
        "{error:?}"
    );
    let silent = PasswordCallback::new(std::future::pending::<Result<String, std::io::Error>>)
        .with_timeout(Duration::from_millis(10));
    let error =
        PostgresStore::connect(&dsn, ConnectOptions::new().password_callback(silent)).await.unwrap_err();
    assert!(matches!(&error, StoreError::Password { .. }), "{error:?}");
    let end = format!("DROP ROLE {role}");
    wait_until("the role has no session", PATIENCE, async || admin.batch_execute(&end).await.is_ok()).await;
}
