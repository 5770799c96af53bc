//! The server ends with its owner, however the owner ends.
//!
//! The owner is this test binary again, told to run the one ignored test below.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, kill_process, test_kill_process};
use taskq_testkit::{
    ChildProcess, Options, PgSource, PrivateServer, ServerError, Signal, wait_for, wait_until,
};

const WITHIN: Duration = Duration::from_mins(1);

/// Not a test: what the owner processes run.
#[tokio::test]
#[ignore = "runs as the child process of the tests in this module"]
async fn owner() {
    let server = PrivateServer::start(Options::fast(PgSource::from_env().unwrap())).await.unwrap();
    println!("postmaster={}", server.pid().unwrap());
    println!("directory={}", server.data_dir().parent().unwrap().display());
    println!("ready");
    std::future::pending::<()>().await;
}

struct Owner {
    process: ChildProcess,
    postmaster: Pid,
    directory: PathBuf,
}

fn owner_command() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "death::owner", "--ignored", "--nocapture"]);
    command
}

async fn start_owner() -> Owner {
    let process = ChildProcess::spawn(&mut owner_command()).unwrap();
    process.wait_for_line("ready", WITHIN).await;
    // The harness writes the test's name in front of its first line.
    let value = |key: &str| {
        let line = process.stdout().into_iter().find(|line| line.contains(key)).unwrap();
        line.split_once(key).unwrap().1.to_owned()
    };
    let postmaster = Pid::from_raw(value("postmaster=").parse().unwrap()).unwrap();
    let directory = PathBuf::from(value("directory="));
    assert!(runs(postmaster) && directory.is_dir());
    Owner { process, postmaster, directory }
}

/// Whether the process runs; one that has ended and that nobody has waited for yet does not.
fn runs(process: Pid) -> bool {
    let stat = format!("/proc/{}/stat", process.as_raw_nonzero());
    test_kill_process(process).is_ok()
        && !std::fs::read_to_string(stat).is_ok_and(|stat| stat.contains(") Z "))
}

/// In this order: PostgreSQL ends by itself within a minute of losing its directory, which is not what is wanted.
async fn expect_nothing_left(postmaster: Pid, directory: &Path) {
    wait_until("the directory is removed", WITHIN, async || !directory.exists()).await;
    wait_until("the server ended before", Duration::from_secs(20), async || !runs(postmaster)).await;
}

#[tokio::test]
async fn an_owner_killed_by_kill_9_leaves_no_server_behind() {
    let mut owner = start_owner().await;
    owner.process.signal(Signal::KILL).unwrap();
    owner.process.wait(WITHIN).await;
    expect_nothing_left(owner.postmaster, &owner.directory).await;
}

#[tokio::test]
async fn an_interrupt_from_the_terminal_lets_the_keeper_finish() {
    let mut owner = start_owner().await;
    owner.process.signal_group(Signal::INT).unwrap();
    owner.process.wait(WITHIN).await;
    expect_nothing_left(owner.postmaster, &owner.directory).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_owner_killed_while_its_server_is_created_leaves_no_directory_behind() {
    let mut process = ChildProcess::spawn(&mut owner_command()).unwrap();
    let owner = process.id();
    let directory = wait_for("its keeper", WITHIN, async || directory_of_the_keeper_of(owner)).await;
    wait_until("initdb at work", WITHIN, async || directory.join("data").exists()).await;
    process.signal(Signal::KILL).unwrap();
    process.wait(WITHIN).await;
    assert!(!process.stdout().iter().any(|line| line.contains("ready")), "killed too late to show anything");
    wait_until("the directory is removed", WITHIN, async || !directory.exists()).await;
}

/// Looks through the processes of the machine for the keeper whose parent is `owner`.
#[cfg(target_os = "linux")]
fn directory_of_the_keeper_of(owner: u32) -> Option<PathBuf> {
    std::fs::read_dir("/proc").ok()?.filter_map(Result::ok).find_map(|process| {
        let status = std::fs::read_to_string(process.path().join("status")).ok()?;
        let arguments = std::fs::read_to_string(process.path().join("cmdline")).ok()?;
        let script = arguments.split('\0').find(|argument| argument.ends_with("/keeper.sh"))?;
        status
            .contains(&format!("PPid:\t{owner}\n"))
            .then(|| PathBuf::from(script).parent().map(Path::to_owned))?
    })
}

#[tokio::test]
async fn dropping_and_stopping_leave_nothing_either() {
    for stop in [false, true] {
        let server = PrivateServer::start(Options::fast(PgSource::from_env().unwrap())).await.unwrap();
        let postmaster = Pid::from_raw(server.pid().unwrap().try_into().unwrap()).unwrap();
        let directory = server.data_dir().parent().unwrap().to_owned();
        if stop {
            server.stop().await.unwrap();
        } else {
            drop(server);
        }
        assert!(!runs(postmaster) && !directory.exists(), "stop: {stop}");
    }
}

#[tokio::test]
async fn a_frozen_server_ends_too() {
    let mut owner = start_owner().await;
    kill_process(owner.postmaster, Signal::STOP).unwrap();
    owner.process.signal(Signal::KILL).unwrap();
    owner.process.wait(WITHIN).await;
    expect_nothing_left(owner.postmaster, &owner.directory).await;
}

#[tokio::test]
async fn a_keeper_that_was_killed_is_replaced_for_the_last_work() {
    let server = PrivateServer::start(Options::fast(PgSource::from_env().unwrap())).await.unwrap();
    let postmaster = Pid::from_raw(server.pid().unwrap().try_into().unwrap()).unwrap();
    let directory = server.data_dir().parent().unwrap().to_owned();
    kill_process(Pid::from_raw(server.keeper_id().try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
    wait_until("the keeper is missed", WITHIN, async || {
        matches!(server.resume().await, Err(ServerError::KeeperGone(_)))
    })
    .await;
    drop(server);
    assert!(!runs(postmaster) && !directory.exists());
}

#[tokio::test]
async fn a_kept_server_runs_on_until_its_stop_command() {
    let server = PrivateServer::start(Options::fast(PgSource::from_env().unwrap())).await.unwrap();
    let postmaster = Pid::from_raw(server.pid().unwrap().try_into().unwrap()).unwrap();
    let kept = server.keep().await.unwrap();
    assert!(runs(postmaster));
    drop(tokio_postgres::connect(&kept.dsn, tokio_postgres::NoTls).await.expect("it still answers"));

    let stopped = Command::new("sh").arg("-c").arg(&kept.stop_command).output().unwrap();
    assert!(stopped.status.success(), "{stopped:?}");
    expect_nothing_left(postmaster, &kept.directory).await;
}
