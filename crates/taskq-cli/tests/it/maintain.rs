//! What operators see of the maintenance: `taskq leader`, `doctor`, `job tail`.

use serde_json::{Value, json};
use taskq_testkit::{ChildProcess, Signal, wait_for, wait_until};

use crate::harness::{Database, Ran, WITHIN, run, stop, taskq};

impl Database {
    /// Lets something happen to a new job; returns it.
    async fn cancelled(&self) -> String {
        let id = self.enqueue(&json!({"actor": "a", "payload": 1})).await;
        self.run(["job", "cancel", &id]).done();
        id
    }

    /// Prints the events behind a place until one tells of the job: transactions of others hold them back.
    async fn tail_until(&self, id: &str, from: &[&str]) -> Vec<Value> {
        wait_for("the event", WITHIN, async || {
            let ran = run(self.taskq(["job", "tail", "--no-follow", "--json"]).args(from));
            let events: Vec<Value> =
                ran.done().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            events.iter().any(|event| event["job_id"] == id).then_some(events)
        })
        .await
    }
}

fn sweep(leader: &Ran, name: &str) -> Value {
    let sweeps = leader.json()["sweeps"].as_array().unwrap().clone();
    sweeps.into_iter().find(|sweep| sweep["sweep"] == name).unwrap()
}

#[tokio::test]
async fn events_are_printed_and_taken_up_where_they_were_left() {
    let db = Database::new().await;
    let (first, second) = (db.cancelled().await, db.cancelled().await);
    let events = db.tail_until(&second, &["--from-start"]).await;
    let told: Vec<_> =
        events.iter().map(|event| (event["job_id"].as_str().unwrap(), &event["kind"])).collect();
    assert_eq!(told, [(first.as_str(), &json!("cancelled")), (second.as_str(), &json!("cancelled"))]);
    assert!(events[0]["occurred_at"].is_string() && events[0]["detail"].is_object(), "{events:?}");
    let cursor = events[0]["cursor"].as_str().unwrap();
    let rest = db.tail_until(&second, &["--from", cursor]).await;
    assert_eq!(rest, events[1..]);
    let one = run(db.taskq(["job", "tail", "--no-follow", "--from-start"]).arg(&first));
    assert!(one.done().contains(&first) && one.done().contains("cancelled") && !one.done().contains(&second));
    let none = run(&mut db.taskq(["job", "tail", "--no-follow", "--from-start", "--kind", "crashed"]));
    assert_eq!(none.done(), "");
    for (arguments, part) in
        [(vec!["--from", "7"], "two numbers"), (vec!["--from", "1-1", "--from-start"], "--from")]
    {
        run(db.taskq(["job", "tail"]).args(arguments)).refused(2, &[part]);
    }
    // Of another server: it would be waited for until this one's counter comes there.
    for arguments in [["--no-follow"].as_slice(), &[]] {
        let mut foreign = db.taskq(["job", "tail", "--from", "18446744073709551615-0"]);
        run(foreign.args(arguments)).refused(2, &["18446744073709551615", "another server", "0-0"]);
    }
}

#[tokio::test]
async fn events_are_printed_as_they_happen_until_somebody_ends_it() {
    let db = Database::new().await;
    let mut tail = ChildProcess::spawn(db.taskq(["job", "tail", "--json"]).arg("--kind=cancelled")).unwrap();
    // It begins with now, whenever that is.
    wait_until("an event", WITHIN, async || {
        db.cancelled().await;
        !tail.stdout().is_empty()
    })
    .await;
    let line: Value = serde_json::from_str(&tail.stdout()[0]).unwrap();
    assert_eq!(line["kind"], "cancelled");
    tail.signal(Signal::INT).unwrap();
    assert_eq!(tail.wait(WITHIN).await.code(), Some(0));
}

#[tokio::test]
async fn the_leader_shows_its_sweeps_and_what_its_process_sets() {
    let db = Database::new().await;
    db.client
        .batch_execute(
            "INSERT INTO taskq.job_events (job_id, occurred_at, kind) VALUES (gen_random_uuid(), now() - interval '1 hour', 'x')",
        )
        .await
        .unwrap();
    let arguments = ["--queue", "q", "--actor", "a=cat"];
    let mut command = db.taskq(["worker"]);
    command.args(arguments).env("TASKQ_EVENT_RETENTION_PERIOD", "60s");
    command.env("TASKQ_LOG", "info,taskq_core::worker::maintenance=debug");
    let worker = ChildProcess::spawn(&mut command).unwrap();
    worker.wait_for_line("event-retention-swept", WITHIN).await;
    // What an exporter adds up.
    worker.wait_for_line("counter=\"taskq.swept.job_events\" rows=1", WITHIN).await;
    wait_until("its note", WITHIN, async || sweep(&db.run(["leader", "--json"]), "events")["swept"] == 1)
        .await;
    let told = db.run(["leader", "--json"]);
    told.done();
    let events = sweep(&told, "events");
    assert_eq!(events["overrides"]["event_retention_period"], "60.000000 seconds");
    assert_eq!((&events["counter"], &events["rows"]), (&json!("taskq.swept.job_events"), &json!(1)));
    assert!(events["last_run_at"].is_string() && events["duration_s"].is_number(), "{events}");
    assert_eq!((&events["backlog"]["value"], &events["last_error"]), (&json!(0), &json!(null)));
    for sweep in told.json()["sweeps"].as_array().unwrap() {
        for fact in [
            "counter",
            "last_run_at",
            "duration_s",
            "rows",
            "swept",
            "backlog",
            "behind_s",
            "last_error",
            "last_error_at",
        ] {
            assert!(sweep.get(fact).is_some(), "{fact}: {sweep}");
        }
        assert!(sweep["counter"].as_str().unwrap().starts_with("taskq.swept."), "{sweep}");
    }
    let text = db.run(["leader"]);
    for part in ["events", "BACKLOG", "60.000000 seconds"] {
        assert!(text.done().contains(part), "{part}: {text:?}");
    }
    db.client.batch_execute("SELECT taskq.set_setting('event_level', '\"all\"')").await.unwrap();
    assert!(db.run(["leader"]).done().contains("event_level is set to \"all\""));

    // Written by hand, and no sense: its own value stands above the one, and the other stops one sweep.
    db.client
        .batch_execute(
            "INSERT INTO taskq.settings VALUES ('event_retention_period', '\"soon\"'), ('archive_retention_period', '\"late\"');
             INSERT INTO taskq.job_events (job_id, occurred_at, kind) VALUES (gen_random_uuid(), now() - interval '1 hour', 'x')",
        )
        .await
        .unwrap();
    wait_until("its sweep", WITHIN, async || sweep(&db.run(["leader", "--json"]), "events")["swept"] == 2)
        .await;
    let told = db.run(["leader", "--json"]);
    assert_eq!(sweep(&told, "events")["last_error"], json!(null));
    let error = sweep(&told, "archive_expiry")["last_error"].to_string();
    assert!(error.contains("archive_retention_period") && error.contains("late"), "{error}");
    let found = db.run(["doctor"]);
    found.refused(1, &["person"]);
    for part in ["archive_retention_period", "event_retention_period"] {
        assert!(found.stdout.contains(part), "{part}: {found:?}");
    }
    stop(worker).await;
}

#[test]
fn a_retention_that_makes_no_sense_is_refused_with_its_source() {
    let worker = || {
        let mut command = taskq();
        command.args(["worker", "--dsn", "postgres://localhost/x", "--queue", "q", "--actor", "a=cat"]);
        command
    };
    for (variable, value, part) in [
        ("TASKQ_EVENT_RETENTION_PERIOD", "-5s", "negative"),
        ("TASKQ_EVENT_RETENTION_PERIOD", "soon", "90s"),
        ("TASKQ_EVENT_RETENTION_BATCH_SIZE", "0", "from 1 to 100000"),
        ("TASKQ_EVENT_RETENTION_BATCH_SIZE", "many", "from 1 to 100000"),
    ] {
        run(worker().env(variable, value)).refused(2, &[variable, &format!("`{value}`"), part]);
    }
    run(worker().arg("--event-retention-period=-1h")).refused(2, &["--event-retention-period", "negative"]);
}

#[tokio::test]
async fn the_doctor_says_what_needs_a_person() {
    let db = Database::new().await;
    let healthy = db.run(["doctor"]);
    assert!(healthy.done().lines().all(|line| line.starts_with("ok ")), "{healthy:?}");
    let id = db.enqueue(&json!({"actor": "mail", "payload": 1})).await;
    let found = db.run(["doctor"]);
    found.refused(1, &["1 problem needs a person"]);
    assert!(found.stdout.contains("problem  unserved: ") && found.stdout.contains("remedy: "), "{found:?}");
    let found = db.run(["doctor", "--json"]).json();
    assert_eq!(found["problems"], 1);
    let check =
        found["checks"].as_array().unwrap().iter().find(|check| check["check"] == "unserved").unwrap();
    assert_eq!(check["verdict"], "problem");
    db.run(["job", "cancel", &id]).done();
    db.run(["doctor"]).done();

    let missing = run(db.taskq(["doctor"]).args(["--schema", "elsewhere"]));
    missing.refused(5, &["elsewhere", "taskq migrate up"]);
    run(taskq().args(["doctor", "--dsn", "postgres://localhost:1/x"])).refused(4, &["localhost:1"]);
}
