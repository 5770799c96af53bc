//! Child processes under test.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, test_kill_process_group};
use taskq_testkit::{ChildProcess, Signal, wait_until};

const WITHIN: Duration = Duration::from_mins(1);

fn shell(script: &str) -> ChildProcess {
    ChildProcess::spawn(Command::new("sh").args(["-c", script])).unwrap()
}

#[tokio::test]
async fn both_streams_are_captured_and_the_exit_status_too() {
    let mut child = shell("echo one; echo two >&2; printf 'not \\377 text'; exit 3");
    assert_eq!(child.wait(WITHIN).await.code(), Some(3));
    assert_eq!(child.stdout(), ["one", "not \u{fffd} text"]);
    assert_eq!(child.stderr(), ["two"]);
    assert!(child.signal(Signal::TERM).is_err(), "its id may belong to another process by now");
}

#[tokio::test]
async fn signals_reach_the_process() {
    let mut child = shell("trap 'echo terminated; exit 7' TERM; echo ready; while :; do sleep 0.01; done");
    child.wait_for_line("ready", WITHIN).await;
    child.signal(Signal::STOP).unwrap();
    child.signal(Signal::TERM).unwrap();
    child.signal(Signal::CONT).unwrap();
    assert_eq!(child.wait(WITHIN).await.code(), Some(7));
    assert_eq!(child.stdout(), ["ready", "terminated"]);

    let mut child = shell("echo ready; read -r forever; while :; do sleep 1; done");
    child.wait_for_line("ready", WITHIN).await;
    child.signal(Signal::KILL).unwrap();
    assert_eq!(child.wait(WITHIN).await.signal(), Some(9));
}

#[tokio::test]
async fn a_frozen_process_does_nothing_until_it_is_thawed_or_killed() {
    let mut child = shell("trap 'echo heard' USR1; echo ready; while :; do sleep 0.01; done");
    child.wait_for_line("ready", WITHIN).await;
    child.freeze().await.unwrap();
    child.freeze().await.expect("once more changes nothing");
    child.signal(Signal::USR1).unwrap();
    if let Ok(state) = std::fs::read_to_string(format!("/proc/{}/stat", child.id())) {
        assert!(state.contains(") T "), "the kernel says that it is stopped: {state}");
    }
    assert_eq!(child.stdout(), ["ready"]);
    child.thaw().unwrap();
    child.wait_for_line("heard", WITHIN).await;

    child.freeze().await.unwrap();
    assert_eq!(child.kill().await.unwrap().signal(), Some(9));
    assert!(child.freeze().await.is_err() && child.thaw().is_err() && child.kill().await.is_err());
}

#[tokio::test]
async fn dropping_it_kills_its_children_too() {
    let child = shell("sleep 1000 & echo ready; wait");
    child.wait_for_line("ready", WITHIN).await;
    let group = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    assert!(test_kill_process_group(group).is_ok());
    drop(child);
    wait_until("the group is empty", WITHIN, async || test_kill_process_group(group).is_err()).await;
}

#[tokio::test]
#[should_panic(expected = "the only line")]
async fn a_line_that_never_comes_shows_what_came() {
    let mut child = shell("echo the only line");
    child.wait(WITHIN).await;
    child.wait_for_line("another", Duration::from_millis(100)).await;
}
