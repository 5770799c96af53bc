//! The examples, as the programs that they are.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use taskq_testkit::{ChildProcess, Signal};

use crate::manual::database;

/// How long anything may take that takes moments on an idle machine.
const WITHIN: Duration = Duration::from_mins(2);

/// Cargo builds them together with the tests, into a directory beside that of the tests.
fn example(name: &str) -> Command {
    let mut path: PathBuf = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples");
    path.push(name);
    assert!(path.exists(), "there is no {}: build it by `cargo build -p taskq --examples`", path.display());
    Command::new(path)
}

fn start(name: &str, args: &[&str]) -> ChildProcess {
    ChildProcess::spawn(example(name).args(args).env_remove("RUST_LOG")).unwrap()
}

/// Runs an example to its end, which must be a good one, and returns what it printed.
async fn run(name: &str, args: &[&str]) -> Vec<String> {
    let mut child = start(name, args);
    end(&mut child).await
}

async fn end(child: &mut ChildProcess) -> Vec<String> {
    let status = child.wait(WITHIN).await;
    assert!(status.success(), "{status}: {:#?} {:#?}", child.stdout(), child.stderr());
    child.stdout()
}

#[tokio::test]
async fn enqueue_and_work() {
    let database = database().await;
    let printed = run("welcome", &[database.dsn()]).await;
    assert_eq!(printed[0], r#"Receipt { message: "welcome, user 7" }"#);
    let in_memory = run("welcome", &[]).await;
    assert_eq!(in_memory[0], printed[0]);
}

#[tokio::test]
async fn a_sqlx_transaction() {
    let database = database().await;
    let printed = run("sqlx_transaction", &[database.dsn()]).await;
    assert_eq!(printed, ["refused: an order needs a customer", "confirmed to Ada", "1 order, 1 job"]);
}

#[tokio::test]
async fn complete_in_transaction() {
    let database = database().await;
    let printed = run("complete_in_transaction", &[database.dsn()]).await;
    assert_eq!(printed, ["4 transfers, 2 interruptions, balances [50, 50]"]);
}

#[tokio::test]
async fn a_batch() {
    let database = database().await;
    let printed = run("batch", &[database.dsn(), "2000"]).await;
    assert!(printed[0].starts_with("enqueued 2000 jobs in "), "{printed:?}");
    assert!(printed[2].starts_with("2000 succeeded in "), "{printed:?}");
    let left = "SELECT count(*) FROM taskq.jobs";
    let left: i64 = database.connect().await.unwrap().query_one(left, &[]).await.unwrap().get(0);
    assert_eq!(left, 0, "nothing is kept");
}

#[tokio::test]
async fn a_web_tier_that_knows_the_types_only() {
    let database = database().await;
    let mut worker = start("web_tier", &["worker", database.dsn()]);
    let printed = run("web_tier", &["web", database.dsn()]).await;
    assert_eq!(printed[1], "it is at /var/pictures/320-cat.jpg");
    // The second run meets the same job, which has ended.
    assert_eq!(run("web_tier", &["web", database.dsn()]).await, printed);
    worker.signal(Signal::TERM).unwrap();
    assert_eq!(end(&mut worker).await, ["1 pictures"]);
}

#[tokio::test]
async fn a_service_that_shuts_down_in_order() {
    let database = database().await;
    let mut service = start("axum_service", &[database.dsn(), "127.0.0.1:0"]);
    let line = service.wait_for_line("listening on ", WITHIN).await;
    let address = line.trim_start_matches("listening on ").to_owned();
    let body = r#"{"name": "Ada"}"#;
    let length = body.len();
    let created = request(
        &address,
        &format!("POST /users HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {length}"),
        body,
    )
    .await;
    assert!(created.starts_with("HTTP/1.1 201 "), "{created}");
    let (_, job) = created.split_once("\r\n\r\n").unwrap();
    let id = job.trim_start_matches("{\"job\":\"").trim_end_matches("\"}");
    taskq_testkit::wait_until("the job", WITHIN, async || {
        let status = request(&address, &format!("GET /jobs/{id} HTTP/1.1"), "").await;
        assert!(status.starts_with("HTTP/1.1 200 "), "{status}");
        status.ends_with("succeeded")
    })
    .await;
    let nobody = taskq::JobId::new();
    let absent = request(&address, &format!("GET /jobs/{nobody} HTTP/1.1"), "").await;
    assert!(absent.starts_with("HTTP/1.1 404 "), "{absent}");
    service.signal(Signal::TERM).unwrap();
    let printed = end(&mut service).await;
    assert_eq!(printed.last().unwrap(), "1 jobs succeeded");
}

/// Sends a request on a connection of its own and returns the whole answer.
async fn request(address: &str, head: &str, body: &str) -> String {
    let text = format!("{head}\r\nhost: test\r\nconnection: close\r\n\r\n{body}");
    let address = address.to_owned();
    let talk = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    tokio::task::spawn_blocking(talk).await.unwrap()
}
