//! What each verb says, word by word: exit code, standard output, standard error. `INSTA_UPDATE=always` accepts what it
//! says now.

use std::fmt::Write as _;

use crate::harness::{Database, Ran, run, taskq};

const FIRST: &str = "0190b6a5-8c1f-7000-8000-000000000001";
const SECOND: &str = "0190b6a5-8c1f-7000-8000-000000000002";
const NEVER: &str = "0190b6a5-8c1f-7000-8000-00000000000f";

/// A session at a prompt: what was typed, and what came.
#[derive(Default)]
struct Session(String);

impl Session {
    fn note(&mut self, arguments: &[&str], ran: &Ran) {
        let typed: Vec<_> = arguments.iter().map(|word| quoted(word)).collect();
        let code = ran.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        let _ = writeln!(self.0, "$ taskq {}\nexit code: {code}", typed.join(" "));
        for (name, text) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
            if !text.is_empty() {
                let _ = writeln!(self.0, "{name}:\n{}", without_times(text).trim_end());
            }
        }
        self.0.push('\n');
    }

    /// Without a database.
    fn alone(&mut self, arguments: &[&str]) {
        let ran = run(taskq().args(arguments));
        self.note(arguments, &ran);
    }

    /// With one.
    fn with(&mut self, db: &Database, arguments: &[&str]) {
        let ran = run(db.taskq([]).args(arguments));
        self.note(arguments, &ran);
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{word}'") }
}

/// Replaces times of day, which differ from run to run, by a word of the same length.
fn without_times(text: &str) -> String {
    const FORM: &[u8] = b"0000-00-00 00:00:00Z";
    let is_time = |bytes: &[u8]| {
        bytes
            .iter()
            .zip(FORM)
            .all(|(byte, form)| if *form == b'0' { byte.is_ascii_digit() } else { byte == form })
    };
    let (mut out, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.len() >= FORM.len() && is_time(&rest[..FORM.len()]) {
            out.extend_from_slice(b"<- a time to come ->");
            at += FORM.len();
        } else {
            out.push(rest[0]);
            at += 1;
        }
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn wrong_use_is_told_in_one_line() {
    let mut session = Session::default();
    for arguments in [
        &["jobs"] as &[&str],
        &["job"],
        &["job", "show"],
        &["job", "show", "one"],
        &["job", "list", "--status", "lost"],
        &["job", "list", "--limit", "0"],
        &["job", "cancel"],
        &["job", "cancel", FIRST, "--all"],
        &["job", "retry", "--status", "running"],
        &["job", "tail", "--from", "here"],
        &["enqueue"],
        &["enqueue", "a", "{"],
        &["enqueue", "a", "--in", "soon"],
        &["enqueue", "a", "--in", "5m", "--at", "2030-01-31T08:00Z"],
        &["enqueue", "a", "--max-attempts", "0"],
        &["enqueue", ""],
        &["queue", "set", "q"],
        &["queue", "set", "q", "--mode", "lifo"],
        &["migrate", "up", "--phase", "mid"],
        &["migrate", "grant", "boss", "somebody"],
        &["completions", "tcsh"],
        &["bench", "drain", "--jobs", "0"],
        &["dev", "--dsn", "postgres://localhost/x"],
        &["worker"],
        &["worker", "--config", "/nowhere/taskq.toml"],
    ] {
        session.alone(arguments);
    }
    insta::assert_snapshot!("wrong_use", session.0);
}

#[test]
fn a_database_that_is_not_there_is_told_in_one_line() {
    let mut session = Session::default();
    session.alone(&["job", "list"]);
    session.alone(&["stats", "--dsn", "nonsense"]);
    session.alone(&["workers", "--dsn", "postgres://127.0.0.1:1/x", "--schema", "pg_mine"]);
    insta::assert_snapshot!("no_database", session.0);
}

/// Everything that is wrong with a file, and with the flags beside it, at once and with its place.
#[test]
fn all_that_is_wrong_with_the_settings_is_told_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("taskq.toml");
    let text = "schema = \"pg_mine\"\nslots = 0\nlease = \"1ms\"\ncolour = \"red\"\nshutdown_grace = 5\n\
        event_retention_period = \"-1 day\"\nevent_retention_batch_size = 0\nlog_level = \"loud=[\"\n\n\
        [queues.files]\nslots = 99999999\n\n[actors.sum]\ncommand = \"no-such-program\"\nsnooze = \"0s\"\n\n[actors.\"\"]\n";
    std::fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap();
    let mut command = taskq();
    command.args(["worker", "--config", path, "--cancel-grace", "never"]).env("PATH", "/nowhere");
    let mut ran = run(&mut command);
    for text in [&mut ran.stdout, &mut ran.stderr] {
        *text = text.replace(path, "taskq.toml").replace("; ", ";\n  ");
    }
    let mut session = Session::default();
    session.note(&["worker", "--config", "taskq.toml", "--cancel-grace", "never"], &ran);
    insta::assert_snapshot!("settings", session.0);
}

#[tokio::test]
async fn an_empty_database_is_told_as_such() {
    let db = Database::new().await;
    let mut session = Session::default();
    for arguments in [
        &["job", "list"] as &[&str],
        &["job", "list", "--json"],
        &["job", "show", NEVER],
        &["job", "wait", NEVER],
        &["job", "cancel", NEVER],
        &["job", "retry", NEVER, "--json"],
        &["job", "tail", "--no-follow"],
        &["job", "cancel", "--all"],
        &["job", "retry", "--queue", "q", "--json"],
        &["queue", "list"],
        &["queue", "list", "--json"],
        &["actor", "list"],
        &["workers"],
        &["workers", "--json"],
        &["stats"],
        &["migrate", "up"],
        &["migrate", "plan", "--json"],
        &["migrate", "verify"],
        &["migrate", "verify", "--json"],
        &["migrate", "grants"],
        &["migrate", "revoke", "nobody"],
        &["enqueue", "a", "--fairness", "tenant"],
    ] {
        session.with(&db, arguments);
    }
    insta::assert_snapshot!("empty_database", session.0);
}

#[tokio::test]
async fn a_session_of_an_operator() {
    let db = Database::new().await;
    let mut session = Session::default();
    for arguments in [
        &["enqueue", "mail", r#"{"to": 7}"#, "--id", FIRST, "--tag", "campaign"] as &[&str],
        &["enqueue", "mail", r#"{"to": 7}"#, "--id", FIRST],
        &["enqueue", "report", "--id", SECOND, "--queue", "slow", "--in", "3h", "--json"],
        &["job", "list"],
        &["job", "list", "--queue", "slow"],
        &["job", "show", FIRST],
        &["job", "wait", FIRST, "--timeout", "0s"],
        &["queue", "pause", "slow"],
        &["queue", "pause", "slow", "--json"],
        &["queue", "resume", "slow"],
        &["queue", "resume", "slow"],
        &["queue", "set", "imports", "--mode", "round_robin"],
        &["queue", "set", "imports", "--mode", "round_robin", "--json"],
        &["actor", "list"],
        &["actor", "pause", "mail"],
        &["actor", "resume", "mail", "--json"],
        &["job", "cancel", FIRST, NEVER, "--reason", "not needed"],
        &["job", "cancel", FIRST],
        &["job", "wait", FIRST],
        &["job", "retry", FIRST],
        &["job", "retry", FIRST, "--json"],
        &["job", "cancel", "--tag", "campaign", "--json"],
        &["stats"],
    ] {
        session.with(&db, arguments);
    }
    insta::assert_snapshot!("operator", session.0);
}

/// Off a terminal nothing is broken, unless somebody says how wide it is.
#[tokio::test]
async fn tables_fit_the_width_that_is_said() {
    let db = Database::new().await;
    let queue = "a queue with a name of many words that nobody would want to type";
    db.run(["queue", "pause", queue]).done();
    let wide = db.run(["queue", "list"]);
    assert!(wide.done().contains(queue));
    let mut command = db.taskq(["actor", "list"]);
    db.enqueue(&serde_json::json!({"actor": "a", "queue": queue, "payload": 1})).await;
    let narrow = run(command.env("COLUMNS", "60"));
    let longest = narrow.done().lines().map(|line| line.chars().count()).max();
    assert!(longest.is_some_and(|width| width <= 60), "{}", narrow.stdout);
}

#[test]
fn every_shell_gets_its_script() {
    for (shell, has) in [
        ("bash", "complete -F _taskq"),
        ("zsh", "#compdef taskq"),
        ("fish", "complete -c taskq"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = run(taskq().args(["completions", shell]));
        assert!(script.done().contains(has), "{shell}");
        assert!(script.stdout.contains("migrate"), "{shell}");
    }
}

/// What is asked of the binary without a verb, or of any verb, teaches: it has an example.
#[test]
fn help_has_examples() {
    let top = run(taskq().arg("help"));
    for part in ["taskq demo", "Exit codes:", "Environment:", "taskq help VERB"] {
        assert!(top.done().contains(part), "{part}");
    }
    for verb in [
        &["enqueue"] as &[&str],
        &["worker"],
        &["demo"],
        &["dev"],
        &["doctor"],
        &["workers"],
        &["leader"],
        &["stats"],
        &["completions"],
        &["job", "list"],
        &["job", "show"],
        &["job", "wait"],
        &["job", "tail"],
        &["job", "cancel"],
        &["job", "retry"],
        &["queue", "set"],
        &["migrate", "up"],
        &["migrate", "plan"],
        &["migrate", "status"],
        &["migrate", "verify"],
        &["migrate", "grant"],
        &["migrate", "revoke"],
    ] {
        let help = run(taskq().arg("help").args(verb));
        assert!(help.done().contains("xample"), "{verb:?} has no example: {}", help.stdout);
    }
}
