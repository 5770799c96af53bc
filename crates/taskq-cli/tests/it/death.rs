//! Processes that are killed: nothing they started stays.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;
use taskq_testkit::{ChildProcess, Signal, wait_for, wait_until};

use crate::harness::{Database, WITHIN, taskq};
use crate::programs::runs;

/// Runs jobs that write their process ids and those of a child each into a directory, and then sleep.
async fn start_sleepers(db: &Database, directory: &Path, jobs: usize) -> (ChildProcess, BTreeSet<String>) {
    let script = format!("sleep 1000 & echo $$ > {0}/$$; echo $! > {0}/$!; wait", directory.display());
    let worker = db.worker(&["--queue", "default", "--actor", &format!("sleep=sh -c '{script}'")]).await;
    for _ in 0..jobs {
        db.enqueue(&json!({"actor": "sleep", "payload": null})).await;
    }
    let started = wait_for("every program has started its child", WITHIN, async || {
        let names: BTreeSet<_> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        (names.len() == 2 * jobs).then_some(names)
    });
    (worker, started.await)
}

#[tokio::test]
async fn a_worker_killed_by_kill_9_leaves_no_program_behind() {
    let db = Database::new().await;
    let directory = tempfile::tempdir().unwrap();
    let (mut worker, processes) = start_sleepers(&db, directory.path(), 5).await;
    let helpers = children_of(worker.id());
    worker.signal(Signal::KILL).unwrap();
    worker.wait(WITHIN).await;
    for process in processes.iter().chain(&helpers) {
        wait_until(&format!("{process} is gone"), WITHIN, async || !runs(process)).await;
    }
}

#[tokio::test]
async fn a_guard_that_was_killed_is_replaced() {
    let db = Database::new().await;
    let directory = tempfile::tempdir().unwrap();
    let (mut worker, processes) = start_sleepers(&db, directory.path(), 2).await;
    let guard = children_of(worker.id()).into_iter().find(|child| is_guard(child)).unwrap();
    // A signal that asks a service to stop does not end it.
    let pid = rustix::process::Pid::from_raw(guard.parse().unwrap()).unwrap();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        rustix::process::kill_process(pid, signal).unwrap();
    }
    let more = tempfile::tempdir().unwrap();
    db.enqueue(&json!({"actor": "sleep", "payload": null})).await;
    wait_until("another program runs", WITHIN, async || {
        std::fs::read_dir(directory.path()).unwrap().count() == processes.len() + 2
    })
    .await;
    assert!(runs(&guard));
    drop(more);

    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    db.enqueue(&json!({"actor": "sleep", "payload": null})).await;
    worker.wait_for_line("the guard of programs is gone", WITHIN).await;
    let all = wait_for("the last program runs", WITHIN, async || {
        let names: Vec<_> = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        (names.len() == processes.len() + 4).then_some(names)
    })
    .await;
    worker.signal(Signal::KILL).unwrap();
    worker.wait(WITHIN).await;
    for process in &all {
        wait_until(&format!("{process} is gone"), WITHIN, async || !runs(process)).await;
    }
}

/// A program is spawned in two stages: until the worker has announced it, it waits, and ends with the worker.
#[test]
fn a_program_that_was_never_announced_never_starts() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("started");
    let start = || {
        let mut command = taskq();
        command.args(["program-start", "touch"]).arg(&file);
        command
    };
    let ended = crate::harness::run_with(&mut start(), b"");
    ended.refused(1, &["the worker is gone"]);
    assert!(!file.exists());
    let started = crate::harness::run_with(&mut start(), b"!");
    assert_eq!((started.code, file.exists()), (Some(0), true));
}

#[tokio::test]
async fn dev_stops_its_server_when_asked_and_when_killed() {
    for signal in [Signal::INT, Signal::KILL] {
        let mut dev = ChildProcess::spawn(taskq().args(["dev"])).unwrap();
        // Standard error has it as well, in a sentence.
        let dsn = wait_for("its DSN", WITHIN, async || dev.stdout().first().cloned()).await;
        dev.wait_for_line("until Ctrl-C", WITHIN).await;
        crate::harness::run(taskq().args(["enqueue", "a", "--dsn", &dsn])).done();
        dev.signal(signal).unwrap();
        let status = dev.wait(WITHIN).await;
        assert_eq!(status.code(), (signal == Signal::INT).then_some(0));
        let gone = async || tokio_postgres::connect(&dsn, tokio_postgres::NoTls).await.is_err();
        wait_until("the server is gone", WITHIN, gone).await;
    }
    crate::harness::run(taskq().args(["dev", "--dsn", "postgres://127.0.0.1:1/x"])).refused(2, &["--dsn"]);
}

pub(crate) fn children_of(parent: u32) -> Vec<String> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|process| {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            let parent_of =
                stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)).map(str::to_owned);
            parent_of == Some(parent.to_string())
        })
        .collect()
}

fn is_guard(process: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/cmdline"))
        .is_ok_and(|line| line.contains("program-guard"))
}
