use std::collections::HashMap;

use super::*;

/// An environment that a test makes up.
#[derive(Default)]
struct MadeUp(HashMap<&'static str, String>);

impl MadeUp {
    fn of(variables: &[(&'static str, &str)]) -> Self {
        Self(variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
    }
}

impl Environment for MadeUp {
    fn variable(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned().filter(|value| !value.is_empty())
    }
}

fn read(text: &str) -> Result<Dsn, StoreError> {
    Dsn::understand(text, &MadeUp::default())
}

fn problem(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn bad_names_are_refused_in_one_line_without_the_password() {
    for text in ["", "user=postgres", "host=a port=secret", "postgres://u:secret@h:port/d", "host", "secret"]
    {
        let error = read(text).unwrap_err();
        assert!(matches!(error, StoreError::Invalid { .. }), "{text}: {error}");
        let line = error.to_string();
        assert!(!line.contains('\n') && !line.contains("secret"), "{line}");
    }
}

#[test]
fn what_is_not_supported_is_named_with_its_source() {
    let error = read("host=a krbsrvname=secret unheard_of=secret").unwrap_err();
    assert!(matches!(error, StoreError::Unsupported { .. }), "{error:?}");
    let line = error.to_string();
    assert!(line.contains("krbsrvname (from the DSN), unheard_of (from the DSN)"), "{line}");
    assert!(!line.contains("secret"), "{line}");
    let error = Dsn::understand("host=a", &MadeUp::of(&[("PGREQUIREPEER", "postgres")])).unwrap_err();
    assert!(error.to_string().contains("requirepeer (from PGREQUIREPEER)"), "{error}");
}

#[tokio::test]
async fn settings_of_the_dsn_come_before_ours() {
    let dsn = read("host=a,b port=1,2 application_name=web options='-c work_mem=1MB'").unwrap();
    let settings = Role::Claim.startup_options();
    let config = dsn.config(dsn.hosts()[0], Role::Claim, Some(&settings)).await.unwrap();
    assert_eq!(config.get_application_name(), Some("web:claim"));
    assert!(config.get_options().unwrap().starts_with("-c work_mem=1MB -c default_transaction"));
    assert_eq!(dsn.servers(), "a:1, b:2");
}

#[test]
fn what_the_dsn_leaves_open_the_environment_says() {
    let environment = MadeUp::of(&[
        ("PGHOST", "e1,e2"),
        ("PGPORT", "7"),
        ("PGUSER", "eve"),
        ("PGDATABASE", "evil"),
        ("PGSSLMODE", "require"),
        ("PGAPPNAME", "env"),
        ("PGCONNECT_TIMEOUT", "3"),
    ]);
    let dsn = Dsn::understand("", &environment).unwrap();
    assert_eq!(dsn.servers(), "e1:7, e2:7");
    assert_eq!(dsn.config.get_user(), Some("eve"));
    assert_eq!(dsn.tls.mode, SslMode::Require);
    assert_eq!(dsn.name.as_deref(), Some("env"));
    assert_eq!(dsn.connect_timeout(), Duration::from_secs(3));
    let dsn = Dsn::understand("postgres://me@h:8/d?sslmode=disable", &environment).unwrap();
    assert_eq!((dsn.servers().as_str(), dsn.config.get_dbname()), ("h:8", Some("d")));
    assert_eq!(dsn.tls.mode, SslMode::Disable);
    // Empty hides what the environment says.
    let dsn = Dsn::understand("host=h application_name=''", &environment).unwrap();
    assert_eq!(dsn.name, None);
}

#[test]
fn servers_are_named_addressed_or_local() {
    assert_eq!(read("host=/run/pg,h,::1 port=1,2,3").unwrap().servers(), "/run/pg/.s.PGSQL.1, h:2, ::1:3");
    let dsn = read("host=name hostaddr=127.0.0.1").unwrap();
    assert_eq!((dsn.servers().as_str(), dsn.hosts()[0].name()), ("127.0.0.1:5432", "name"));
    assert_eq!(read("hostaddr=::1").unwrap().servers(), "[::1]:5432");
    for bad in [
        "host=a,b port=1,2,3",
        "host=a,b hostaddr=::1",
        "hostaddr=name",
        "host=@x",
        "host=a,",
        "host=a port=0",
    ] {
        assert!(problem(bad).contains("host") || problem(bad).contains("port"), "{bad}");
    }
}

#[test]
fn encryption_is_as_strict_as_it_is_asked_for() {
    let home = MadeUp::of(&[("HOME", "/nowhere")]);
    let tls = |text: &str| Dsn::understand(text, &home).map(|dsn| (dsn.tls.mode, dsn.tls.trust));
    assert_eq!(tls("host=a").unwrap(), (SslMode::Prefer, Trust::Anybody));
    assert_eq!(tls("host=a sslmode=require").unwrap(), (SslMode::Require, Trust::Anybody));
    let file = |path: &str| Trust::File(path.into());
    assert_eq!(tls("host=a sslmode=require sslrootcert=/r").unwrap(), (SslMode::Require, file("/r")));
    let default = file("/nowhere/.postgresql/root.crt");
    assert_eq!(tls("host=a sslmode=verify-ca").unwrap(), (SslMode::VerifyCa, default));
    assert_eq!(tls("host=a sslrootcert=system").unwrap(), (SslMode::VerifyFull, Trust::System));
    for bad in [
        "sslmode=verify-ca sslrootcert=system",
        "sslmode=perhaps",
        "sslnegotiation=direct",
        "sslmode=require ssl_max_protocol_version=TLSv1.1",
        "ssl_min_protocol_version=TLSv1.3 ssl_max_protocol_version=TLSv1.2",
        "sslcompression=1",
        "gssencmode=require",
        "client_encoding=latin1",
    ] {
        let problem = problem(&format!("host=a {bad}"));
        let option = bad.split(['=', ' ']).next().unwrap();
        assert!(problem.contains(option) || problem.contains("ssl"), "{bad}: {problem}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn passwords_come_from_a_file_that_nobody_else_may_read() {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pass");
    fs::write(&path, "a:1:d:u:one\n*:*:*:u:any\n").unwrap();
    let permit = |mode| fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    permit(0o600);
    let named = format!("host=a,b port=1,2 dbname=d user=u passfile={}", path.display());
    let dsn = read(&named).unwrap();
    let word = async |dsn: &Dsn, nth: usize| {
        let config = dsn.config(dsn.hosts()[nth], Role::Claim, None).await?;
        Ok::<_, StoreError>(config.get_password().map(|word| String::from_utf8_lossy(word).into_owned()))
    };
    assert_eq!(word(&dsn, 0).await.unwrap().as_deref(), Some("one"));
    assert_eq!(word(&dsn, 1).await.unwrap().as_deref(), Some("any"));
    let given = read(&format!("{named} password=mine")).unwrap();
    assert_eq!(word(&given, 0).await.unwrap().as_deref(), Some("mine"));

    permit(0o640);
    let error = word(&dsn, 0).await.unwrap_err();
    assert!(matches!(&error, StoreError::Refused { message } if message.contains("chmod")), "{error}");
    // One that is just there is passed over.
    fs::rename(&path, directory.path().join(".pgpass")).unwrap();
    let home = MadeUp::of(&[("HOME", directory.path().to_str().unwrap())]);
    let dsn = Dsn::understand("host=a port=1 dbname=d user=u", &home).unwrap();
    assert_eq!(word(&dsn, 0).await.unwrap(), None);
    fs::set_permissions(directory.path().join(".pgpass"), Permissions::from_mode(0o600)).unwrap();
    assert_eq!(word(&dsn, 0).await.unwrap().as_deref(), Some("one"));
}

#[test]
fn a_service_says_what_the_dsn_leaves_open() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("services");
    std::fs::write(&path, "# ours\n[other]\nhost=o\n[mine]\nhost=s\nport=9\nuser = su\n[last]\nhost=l\n")
        .unwrap();
    let environment =
        MadeUp::of(&[("PGSERVICEFILE", path.to_str().unwrap()), ("PGHOST", "e"), ("PGDATABASE", "ed")]);
    let dsn = Dsn::understand("service=mine port=8", &environment).unwrap();
    assert_eq!(dsn.servers(), "s:8");
    assert_eq!((dsn.config.get_user(), dsn.config.get_dbname()), (Some("su"), Some("ed")));
    let error = Dsn::understand("service=none", &environment).unwrap_err();
    assert!(error.to_string().contains("\"none\""), "{error}");
}
