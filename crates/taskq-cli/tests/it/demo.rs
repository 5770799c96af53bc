//! `taskq demo`.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use taskq_testkit::{ChildProcess, Signal};

use crate::harness::{Database, WITHIN, run, taskq};

fn fill(root: &Path) {
    std::fs::create_dir_all(root.join("deep/target")).unwrap();
    std::fs::create_dir_all(root.join(".git")).unwrap();
    for (file, text) in [
        ("a.txt", "abc"),
        ("b c\n.txt", "1\n2\n"),
        ("deep/empty", ""),
        (".hidden", "no"),
        (".git/config", "no"),
        ("deep/target/built", "no"),
    ] {
        std::fs::write(root.join(file), text).unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", root.join("link")).unwrap();
}

#[tokio::test]
async fn the_demo_runs_one_job_per_file_on_a_server_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    fill(directory.path());
    let _socket = UnixListener::bind(directory.path().join("socket")).unwrap();
    let ran = run(taskq().arg("demo").arg(directory.path()).arg("--json"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let summary = ran.json();
    for (field, value) in [
        ("jobs", json!(3)),
        ("succeeded", json!(3)),
        ("failed", json!(0)),
        ("retries", json!(0)),
        ("bytes", json!(7)),
        ("lines", json!(2)),
        ("failures", json!([])),
        ("kept", json!(null)),
        ("skipped", json!({"links": 1, "special": 1, "not_utf8": 0, "unreadable": []})),
    ] {
        assert_eq!(summary[field], value, "{field}");
    }
    assert!(summary["jobs_per_s"].as_f64().unwrap() > 0.0);
    assert!(summary["run_time_ms"]["p99"].as_f64() >= summary["run_time_ms"]["p50"].as_f64());
}

#[tokio::test]
async fn a_server_that_is_kept_can_be_looked_at_and_stopped() {
    let directory = tempfile::tempdir().unwrap();
    fill(directory.path());
    let ran = run(taskq().arg("demo").arg(directory.path()).args(["--keep", "--json"]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let kept = &ran.json()["kept"];
    let dsn = kept["dsn"].as_str().unwrap();
    let jobs = run(taskq().args(["job", "list", "--queue", "demo", "--json", "--dsn", dsn])).json();
    let stopped = run(Command::new("sh").args(["-c", kept["stop_command"].as_str().unwrap()]));
    assert_eq!(stopped.code, Some(0), "{stopped:?}");

    let job = jobs.as_array().unwrap().iter().find(|job| job["result"]["bytes"] == 3).unwrap();
    assert!(job["payload"]["path"].as_str().unwrap().ends_with("/a.txt"));
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(job["result"], json!({"sha256": digest, "lines": 0, "bytes": 3}));
}

/// Makes a file that nobody can open, root neither: its path is longer than the system takes.
fn make_unreadable(root: &Path) {
    let mut directory = root.to_owned();
    while directory.as_os_str().len() < 3_950 {
        let room = 4_050 - directory.as_os_str().len();
        directory.push("d".repeat(room.min(200)));
        std::fs::create_dir(&directory).unwrap();
    }
    let script = format!("printf x > {}", "f".repeat(200));
    let made = run(Command::new("sh").args(["-c", &script]).current_dir(&directory));
    assert_eq!(made.code, Some(0), "{made:?}");
}

#[tokio::test]
async fn a_file_that_cannot_be_read_fails_alone() {
    let db = Database::new().await;
    let directory = tempfile::tempdir().unwrap();
    fill(directory.path());
    make_unreadable(directory.path());
    let ran = run(db.taskq(["demo", "--json"]).arg(directory.path()));
    assert_eq!(ran.code, Some(0), "a failed file is a fact, no failure of the demo: {ran:?}");
    let summary = ran.json();
    let counts = ["jobs", "succeeded", "failed", "retries"].map(|field| summary[field].as_u64().unwrap());
    assert_eq!(counts, [4, 3, 1, 2], "{summary}");
    let failure = &summary["failures"][0];
    assert!(failure["error"].as_str().unwrap().contains("File name too long"), "{summary}");
    assert!(failure["examples"][0].as_str().unwrap().ends_with("fff"));

    let failed = db.run(["job", "list", "--status", "failed", "--json"]).json();
    let job = db.job(failed[0]["id"].as_str().unwrap());
    assert_eq!((&job["attempt"], job["attempts"].as_array().map(Vec::len)), (&json!(3), Some(3)));

    let again = run(db.taskq(["demo"]).arg(directory.path()));
    assert_eq!(again.code, Some(0), "{again:?}");
    for part in
        ["jobs        4\n", "1 failed: File name too long", "left out: 1 symbolic links", "taskq stats"]
    {
        assert!(again.stdout.contains(part), "{part:?} is not in {}", again.stdout);
    }
}

#[tokio::test]
async fn a_database_of_ones_own_is_not_migrated_by_a_demo() {
    let database = taskq_testkit::shared_server().await.empty_database().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    fill(directory.path());
    let ran = run(taskq().arg("demo").arg(directory.path()).args(["--dsn", database.dsn()]));
    ran.refused(5, &["taskq migrate up"]);
}

#[tokio::test]
async fn a_demo_can_be_interrupted() {
    let db = Database::new().await;
    let directory = tempfile::tempdir().unwrap();
    // Long enough to be read for minutes, and no block of the disk.
    let endless = std::fs::File::create(directory.path().join("endless")).unwrap();
    endless.set_len(1 << 42).unwrap();
    let mut demo = ChildProcess::spawn(db.taskq(["demo"]).arg(directory.path())).unwrap();
    demo.wait_for_line("0 of 1 jobs ended", WITHIN).await;
    demo.signal(Signal::INT).unwrap();
    assert_eq!(demo.wait(WITHIN).await.code(), Some(1));
    assert!(demo.stderr().iter().any(|line| line.starts_with("error: interrupted")));
    let jobs = db.run(["job", "list", "--json"]).json();
    assert_eq!((&jobs[0]["status"], &jobs[0]["attempt"]), (&json!("pending"), &json!(0)), "it went back");
}

#[test]
fn a_directory_without_files_is_refused_before_a_server_starts() {
    let directory = tempfile::tempdir().unwrap();
    let demo = |path: &Path| run(taskq().arg("demo").arg(path).env("TASKQ_PG", "/nonexistent"));
    demo(directory.path()).refused(2, &["has no files"]);
    std::fs::create_dir(directory.path().join("target")).unwrap();
    std::fs::write(directory.path().join("target/x"), "").unwrap();
    demo(directory.path()).refused(2, &["has no files"]);
    demo(&directory.path().join("target/x")).refused(2, &["is not a directory"]);
    demo(&directory.path().join("gone")).refused(2, &["No such file"]);
    let dsn = ["--keep", "--dsn", "postgres://127.0.0.1:1/x"];
    run(taskq().arg("demo").arg(directory.path().join("target")).args(dsn)).refused(2, &["--keep"]);
}
