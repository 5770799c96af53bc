//! Wrong use and bad input: exit code 2, one line that says what is wrong, nothing written.

use crate::harness::{Database, run, run_with, taskq};

const MIB: usize = 1024 * 1024;

#[test]
fn every_verb_says_which_database_is_missing() {
    let id = "0196f1f4-0000-7000-8000-000000000000";
    for verb in [
        vec!["migrate", "up"],
        vec!["migrate", "status"],
        vec!["migrate", "plan"],
        vec!["migrate", "verify"],
        vec!["worker", "--queue", "q", "--actor", "a=cat"],
        vec!["enqueue", "a"],
        vec!["job", "list"],
        vec!["job", "show", id],
        vec!["job", "wait", id],
        vec!["job", "cancel", id],
        vec!["job", "retry", "--all"],
        vec!["queue", "list"],
        vec!["queue", "pause", "q"],
        vec!["queue", "resume", "q"],
        vec!["actor", "list"],
        vec!["actor", "pause", "a"],
        vec!["actor", "resume", "a"],
        vec!["workers"],
        vec!["leader"],
        vec!["doctor"],
        vec!["job", "tail"],
        vec!["stats"],
    ] {
        run(taskq().args(&verb)).refused(2, &["--dsn", "TASKQ_PG_DSN"]);
        run(taskq().args(&verb).env("TASKQ_PG_DSN", "")).refused(2, &["--dsn", "TASKQ_PG_DSN"]);
    }
}

#[test]
fn the_command_line_is_checked_before_the_database_is_asked_for() {
    let long = "x".repeat(256);
    for (arguments, parts) in [
        (vec![""], vec!["ACTOR", "empty"]),
        (vec!["a\nb"], vec!["ACTOR", "control character"]),
        (vec![long.as_str()], vec!["ACTOR", "256 bytes"]),
        (vec!["a", "--queue", ""], vec!["--queue", "empty"]),
        (vec!["a", "--queue", "a\u{7f}"], vec!["--queue", "control character"]),
        (vec!["a", "--max-attempts", "0"], vec!["--max-attempts", "1..=32767"]),
        (vec!["a", "--max-attempts", "32768"], vec!["--max-attempts", "1..=32767"]),
        (vec!["a", "--max-attempts", "-1"], vec!["--max-attempts"]),
        (vec!["a", "--priority", "32768"], vec!["--priority"]),
        (vec!["a", "--in", "soon"], vec!["--in", "90s"]),
        (vec!["a", "--in=-5s"], vec!["--in", "negative"]),
        (vec!["a", "--in", "1 month"], vec!["--in", "no fixed length"]),
        (vec!["a", "--at", "2030-01-31T08:00"], vec!["--at", "zone"]),
        (vec!["a", "--at", "infinity"], vec!["--at", "zone"]),
        (vec!["a", "--at=-infinity"], vec!["--at", "zone"]),
        (vec!["a", "--deadline", "infinity"], vec!["--deadline", "zone"]),
        (vec!["a", "--in", "5m", "--at", "2030-01-31T08:00Z"], vec!["--in", "--at", "cannot be used with"]),
        (vec!["a", "--start-to-close", "0s"], vec!["--start-to-close", "longer than zero"]),
        (vec!["a", "--id", "7"], vec!["--id"]),
        (vec!["a", r#"{"a":}"#], vec!["not valid JSON", "line 1 column 6"]),
        (vec!["a", ""], vec!["not valid JSON"]),
        (vec!["a", r#""a\u0000""#], vec!["U+0000"]),
        (vec!["a", "--idempotency-key", ""], vec!["--idempotency-key", "empty"]),
        (vec!["a", "--idempotency-key", "a\nb"], vec!["--idempotency-key", "control character"]),
        (vec!["a", "--on-finished", "return"], vec!["--idempotency-key"]),
        (vec!["a", "--idempotency-key", "k", "--on-finished", "no"], vec!["--on-finished", "run-again"]),
        (vec!["a", "--unique", "k"], vec!["--unique"]),
    ] {
        let mut command = taskq();
        command.arg("enqueue").args(&arguments).env("TASKQ_PG_DSN", "postgres://127.0.0.1:1/nowhere");
        run(&mut command).refused(2, &parts);
    }
}

#[test]
fn a_filter_of_jobs_is_checked_before_the_database_is_asked_for() {
    let id = "0196f1f4-0000-7000-8000-000000000000";
    for (arguments, parts) in [
        (vec!["cancel"], vec!["which jobs", "--all"]),
        (vec!["retry"], vec!["which jobs", "--all"]),
        (vec!["cancel", "--limit", "5"], vec!["which jobs", "--all"]),
        (vec!["cancel", "--reason", "x"], vec!["which jobs", "--all"]),
        (vec!["cancel", "x"], vec!["ID"]),
        (vec!["cancel", id, "--queue", "q"], vec!["--queue", "cannot be used with"]),
        (vec!["cancel", id, "--all"], vec!["--all", "cannot be used with"]),
        (vec!["cancel", id, "--limit", "5"], vec!["--limit", "cannot be used with"]),
        (vec!["retry", "--all", "--tag", "t"], vec!["--tag", "cannot be used with"]),
        (vec!["cancel", "--tag", ""], vec!["--tag"]),
        (vec!["cancel", "--queue", ""], vec!["--queue", "empty"]),
        (vec!["cancel", "--all", "--limit", "0"], vec!["--limit"]),
        (vec!["cancel", "--all", "--reason", ""], vec!["--reason"]),
        (vec!["cancel", "--status", "done"], vec!["--status", "unknown status `done`"]),
        (vec!["cancel", "--status", "failed"], vec!["--status", "failed have ended already"]),
        (
            vec!["retry", "--status", "failed", "--status", "running"],
            vec!["--status", "running have not ended"],
        ),
    ] {
        let mut command = taskq();
        command.arg("job").args(&arguments).env("TASKQ_PG_DSN", "postgres://127.0.0.1:1/nowhere");
        run(&mut command).refused(2, &parts);
    }
}

#[test]
fn a_payload_on_standard_input_is_checked_alike() {
    let enqueue = || {
        let mut command = taskq();
        command.args(["enqueue", "a", "-"]).env("TASKQ_PG_DSN", "postgres://127.0.0.1:1/nowhere");
        command
    };
    run_with(&mut enqueue(), b"{\"a\":\n}").refused(2, &["standard input", "line 2 column 1"]);
    run_with(&mut enqueue(), b"\"\xff\"").refused(2, &["not UTF-8 at byte 1"]);
    run_with(&mut enqueue(), b"").refused(2, &["not valid JSON"]);
    run_with(&mut enqueue(), &vec![b'1'; 2 * MIB]).refused(2, &["larger than 1048576 bytes"]);
}

#[test]
fn wrong_settings_of_the_database_are_named_with_their_source() {
    let enqueue = || {
        let mut command = taskq();
        command.args(["enqueue", "a"]).env("TASKQ_PG_DSN", "postgres://127.0.0.1:1/nowhere");
        command
    };
    run(enqueue().args(["--schema", "a\"b"])).refused(2, &["--schema: ", "'\"'"]);
    run(enqueue().env("TASKQ_SCHEMA_NAME", "pg_jobs")).refused(2, &["TASKQ_SCHEMA_NAME: ", "reserved"]);
    run(enqueue().args(["--dsn", "postgres://u:secret@host:port/x"])).refused(2, &["DSN cannot be read"]);
    let both = run(enqueue().args(["--dsn", "host=secret sslmode=bad"]));
    both.refused(2, &["DSN"]);
    assert!(!both.stderr.contains("secret"), "{both:?}");
}

#[test]
fn unknown_words_are_refused_and_help_is_not() {
    run(taskq().arg("enqueu")).refused(2, &["enqueu"]);
    run(taskq().args(["job", "tial"])).refused(2, &["tial"]);
    run(taskq().args(["job", "list", "--status", "done"])).refused(2, &["--status", "unknown status `done`"]);
    run(taskq().args(["job", "list", "--limit", "0"])).refused(2, &["--limit"]);
    run(taskq().args(["migrate", "up", "--phase", "now"])).refused(2, &["--phase", "pre", "post"]);
    assert!(run(taskq().arg("--help")).done().contains("Exit codes"));
    assert!(run(taskq().args(["worker", "--help"])).done().contains("TASKQ_JOB_ID"));
    assert!(run(taskq().arg("--version")).done().starts_with("taskq "));
    assert_eq!(run(&mut taskq()).code, Some(2));
}

#[tokio::test]
async fn what_only_the_database_knows_is_refused_before_anything_is_written() {
    let db = Database::new().await;
    let tags: Vec<String> = (0..65).map(|tag| format!("--tag=t{tag}")).collect();
    for (arguments, parts) in [
        (vec!["--tag", ""], vec!["tag"]),
        (tags.iter().map(String::as_str).collect(), vec!["tags"]),
        (vec!["--in", "2h", "--deadline", "2020-01-01T00:00Z"], vec!["schedule_to_close"]),
        (vec!["--at", "2031-01-01T00:00Z", "--deadline", "2030-12-31T23:59:59Z"], vec!["schedule_to_close"]),
        (vec!["--in", "36601 days"], vec!["delay"]),
        (vec![r#""\ud800""#], vec![]),
    ] {
        run(db.taskq(["enqueue", "a"]).args(&arguments)).refused(2, &parts);
    }
    let payload = format!("\"{}\"", "x".repeat(MIB));
    run_with(&mut db.taskq(["enqueue", "a", "-"]), payload.as_bytes()).refused(2, &["larger than"]);
    assert_eq!(db.jobs().await, 0);
}

#[tokio::test]
async fn the_bounds_themselves_are_accepted() {
    let db = Database::new().await;
    let name = "x".repeat(255);
    db.run(["enqueue", &name, "--queue", &name, "--max-attempts", "32767", "--priority", "-32768"]).done();
    db.run(["enqueue", "a", "--at", "9999-12-30T00:00Z", "--deadline", "9999-12-30T01:00Z"]).done();
    db.run(["enqueue", "a", "--in", "36600 days"]).done();
    let payload = format!("\"{}\"", "x".repeat(MIB - 2));
    let id = run_with(&mut db.taskq(["enqueue", "a", "-"]), payload.as_bytes());
    assert_eq!(db.job(id.done())["payload"].as_str().map(str::len), Some(MIB - 2));
    assert_eq!(db.jobs().await, 4);
}

#[test]
fn all_problems_of_a_worker_are_reported_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("taskq.toml");
    std::fs::write(&file, "dsn = 5\nslots = 0\n[actors.x]\ncommand = 'no-such-program-anywhere'\n").unwrap();
    let ran = run(taskq().arg("worker").arg("--config").arg(&file).args(["--log-level", "taskq=loud"]));
    ran.refused(
        2,
        &[
            "6 problems",
            "taskq.toml:1: expected a string",
            "taskq.toml:2: `0` is not a number of slots",
            "taskq.toml:3: actor `x`: the program `no-such-program-anywhere` is not in PATH",
            "TASKQ_PG_DSN",
            "--queue",
            "--log-level",
        ],
    );
    run(taskq().args(["worker", "--config", "/nonexistent/taskq.toml"]))
        .refused(2, &["--config", "cannot read"]);
}
