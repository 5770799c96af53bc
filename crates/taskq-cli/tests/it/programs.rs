//! What a program's run means for its job.

use serde_json::{Value, json};
use taskq_testkit::wait_until;

use crate::harness::{Database, WITHIN, stop};

/// Runs one job with a program of the shell; waits until it has the status, and returns the job.
async fn run(script: &str, job: Value, status: &str) -> Value {
    let db = Database::new().await;
    let actor = format!("sh=sh -c {}", shlex(script));
    let worker = db.worker(&["--queue", "default", "--actor", &actor]).await;
    let mut document = json!({"actor": "sh", "payload": {"a": 1}, "max_attempts": 1});
    document.as_object_mut().unwrap().extend(job.as_object().unwrap().clone());
    let id = db.enqueue(&document).await;
    db.wait_for_status(&id, status).await;
    stop(worker).await;
    db.job(&id)
}

fn shlex(script: &str) -> String {
    format!("'{}'", script.replace('\'', r"'\''"))
}

fn error(job: &Value) -> (&str, &str) {
    (job["error"]["class"].as_str().unwrap(), job["error"]["message"].as_str().unwrap())
}

#[tokio::test]
async fn a_program_knows_its_job() {
    let script = r#"read -r payload; printf '{"payload": %s, "env": "%s"}' "$payload" "$TASKQ_JOB_ID $TASKQ_ATTEMPT $TASKQ_QUEUE $TASKQ_ACTOR ${TASKQ_DEADLINE-none}""#;
    let id = "0196f1f4-0000-7000-8000-000000000002";
    let job = run(script, json!({"id": id}), "succeeded").await;
    assert_eq!(job["result"], json!({"payload": {"a": 1}, "env": format!("{id} 1 default sh none")}));
    let deadline = json!({"id": id, "schedule_to_close": "2999-01-01T00:00:00Z"});
    let job = run(script, deadline, "succeeded").await;
    assert_eq!(job["result"]["env"], format!("{id} 1 default sh 2999-01-01T00:00:00Z"));
}

#[tokio::test]
async fn a_result_that_is_no_json_is_text() {
    assert_eq!(run(r"printf 'a\000b\377'", json!({}), "succeeded").await["result"], "a\u{fffd}b\u{fffd}");
    assert_eq!(run("exit 0", json!({}), "succeeded").await["result"], json!(null));
}

#[tokio::test]
async fn exit_code_65_fails_for_good() {
    let job = run("echo no retry >&2; exit 65", json!({"max_attempts": 5}), "failed").await;
    assert_eq!((error(&job), &job["attempt"]), (("exit_65", "no retry"), &json!(1)));
}

#[tokio::test]
async fn exit_code_75_runs_again_later_and_burns_nothing() {
    let job = run("echo ignored; exit 75", json!({}), "scheduled").await;
    assert_eq!((&job["attempt"], &job["error"]), (&json!(0), &json!(null)));
    assert_eq!(job["attempts"][0]["outcome"], "snoozed");
}

#[tokio::test]
async fn any_other_end_is_tried_again() {
    let policy = json!({"base": "0 seconds", "factor": 1, "cap": "0 seconds", "jitter": 0});
    let again = json!({"max_attempts": 3, "retry_policy": policy});
    let job = run("[ $TASKQ_ATTEMPT = 3 ] || exit 7; echo $TASKQ_ATTEMPT", again, "succeeded").await;
    assert_eq!((&job["result"], job["attempts"].as_array().map(Vec::len)), (&json!(3), Some(3)));
    assert_eq!(job["attempts"][0]["error"]["class"], "exit_7");

    let job = run("kill -SEGV $$", json!({}), "failed").await;
    assert_eq!(error(&job).0, "signal_11");
    let job = run("kill -KILL $$", json!({}), "failed").await;
    assert_eq!(error(&job).0, "signal_9");
}

#[tokio::test]
async fn the_end_of_standard_error_is_the_error() {
    let script = r"i=0; while [ $i -lt 3000 ]; do printf 'line %05d\n' $i; i=$((i+1)); done >&2; printf 'x\000\377y' >&2; exit 1";
    let job = run(script, json!({}), "failed").await;
    let (class, message) = error(&job);
    assert_eq!(class, "exit_1");
    assert!(message.ends_with("line 02999\nx\u{fffd}\u{fffd}y"), "{message}");
    assert!(message.len() <= 8 * 1024 + 10 && message.len() > 8_000, "{}", message.len());
}

#[tokio::test]
async fn a_result_over_1_mib_fails_for_good() {
    let script = "head -c 50000000 /dev/zero | tr '\\0' 1";
    let job = run(script, json!({"max_attempts": 5}), "failed").await;
    let (class, message) = error(&job);
    assert_eq!((class, &job["attempt"]), ("invalid_output", &json!(1)));
    assert!(message.contains("50000000 bytes"), "{message}");
}

#[tokio::test]
async fn a_program_need_not_read_its_payload() {
    let payload = "x".repeat(1_000_000);
    let job = run("exec <&-; echo 1", json!({"payload": payload}), "succeeded").await;
    assert_eq!(job["result"], 1);
}

#[tokio::test]
async fn a_large_payload_and_a_large_result_do_not_wait_for_each_other() {
    let payload = "x".repeat(1_000_000);
    let job = run("cat", json!({"payload": payload}), "succeeded").await;
    assert_eq!(job["result"].as_str().map(str::len), Some(1_000_000));
}

#[tokio::test]
async fn a_timeout_ends_the_whole_group() {
    let db = Database::new().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    // The grandchild holds the outputs for as long as it lives.
    let actor = format!("sh=sh -c 'sleep 1000 & echo $! > {}; wait'", file.display());
    let worker = db.worker(&["--queue", "default", "--actor", &actor]).await;
    let job = json!({"actor": "sh", "payload": null, "max_attempts": 1, "start_to_close": "5 seconds"});
    let id = db.enqueue(&job).await;
    db.wait_for_status(&id, "failed").await;
    let grandchild = std::fs::read_to_string(&file).unwrap();
    wait_until("the grandchild is gone", WITHIN, async || !runs(grandchild.trim())).await;
    assert_eq!(error(&db.job(&id)).0, "timeout");
    stop(worker).await;
}

#[tokio::test]
async fn what_a_program_leaves_behind_ends_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {}; echo 1", file.display());
    let job = run(&script, json!({}), "succeeded").await;
    assert_eq!(job["result"], 1);
    let left = std::fs::read_to_string(&file).unwrap();
    wait_until("the left process is gone", WITHIN, async || !runs(left.trim())).await;
}

#[tokio::test]
async fn who_leaves_the_group_does_not_hold_the_job() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let script = format!(
        "setsid sh -c 'echo $$ > {}; exec sleep 1000' & until [ -s {0} ]; do sleep 0.01; done; echo 1",
        file.display()
    );
    let job = run(&script, json!({}), "succeeded").await;
    assert_eq!(job["result"], 1);
    let left = std::fs::read_to_string(&file).unwrap();
    assert!(runs(left.trim()), "it is out of reach");
    let left = rustix::process::Pid::from_raw(left.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(left, taskq_testkit::Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_program_that_is_gone_by_now_is_a_failed_attempt() {
    let db = Database::new().await;
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    std::fs::copy("/bin/true", &program).unwrap();
    let worker = db.worker(&["--queue", "default", "--actor", &format!("gone={}", program.display())]).await;
    std::fs::remove_file(&program).unwrap();
    let id = db.enqueue(&json!({"actor": "gone", "payload": null, "max_attempts": 1})).await;
    db.wait_for_status(&id, "failed").await;
    let job = db.job(&id);
    assert!(error(&job).1.contains("No such file"), "{job}");
    stop(worker).await;
}

/// Whether a process runs; one that has ended and that nobody has waited for yet does not.
pub(crate) fn runs(process: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}
