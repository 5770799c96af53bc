//! What comes too late changes nothing and says why.

use serde_json::{Value, json};
use uuid::Uuid;

use super::scene::{Attempt, Scene, backend_pid, claim, raised, settle, until_blocked_by};

/// Everything that is stored, as one text.
async fn everything(scene: &Scene) -> String {
    scene
        .value(
            "SELECT concat((SELECT string_agg(j::text, ';' ORDER BY id) FROM taskq.jobs j),
                           (SELECT string_agg(a::text, ';' ORDER BY job_id, epoch) FROM taskq.job_attempts a),
                           (SELECT string_agg(e::text, ';' ORDER BY id) FROM taskq.job_events e))",
        )
        .await
}

fn outcomes() -> [Value; 5] {
    [
        json!({"outcome": "succeeded", "result": 1}),
        json!({"outcome": "failed", "error": {"message": "no"}}),
        json!({"outcome": "snoozed", "delay": "1 hour"}),
        json!({"outcome": "released"}),
        json!({"outcome": "cancelled"}),
    ]
}

#[tokio::test]
async fn a_wrong_epoch_a_wrong_worker_and_an_ended_lease_are_stale() {
    let scene = Scene::new().await;
    let worker = scene.worker(1).await;
    let stranger = scene.worker(1).await;
    scene.enqueue(1, 1).await;
    let mine = claim(&scene.client, worker, 1).await.unwrap()[0];
    let before = everything(&scene).await;
    let earlier = Attempt { epoch: mine.epoch - 1, ..mine };
    let later = Attempt { epoch: mine.epoch + 1, ..mine };
    // Successes with and without a result go different ways.
    let outcomes: Vec<_> = outcomes().into_iter().chain([json!({"outcome": "succeeded"})]).collect();
    for outcome in &outcomes {
        for (who, attempt) in [(worker, earlier), (worker, later), (stranger, mine), (Uuid::now_v7(), mine)] {
            let verdict = &settle(&scene.client, who, &[attempt], outcome).await[0];
            assert!(!verdict.accepted);
            assert_eq!(
                (verdict.reason.as_str(), verdict.status.as_deref()),
                ("stale", Some("running")),
                "{outcome}"
            );
        }
    }
    scene.expire(worker).await;
    for outcome in &outcomes {
        let verdict = &settle(&scene.client, worker, &[mine], outcome).await[0];
        assert_eq!(
            (verdict.accepted, verdict.reason.as_str()),
            (false, "stale"),
            "after the lease: {outcome}"
        );
    }
    let nobody = Attempt { id: Uuid::now_v7(), epoch: 1 };
    let verdict = &settle(&scene.client, stranger, &[nobody], &outcomes[0]).await[0];
    assert_eq!((verdict.reason.as_str(), &verdict.status), ("gone", &None));
    assert_eq!(everything(&scene).await, before);
}

#[tokio::test]
async fn a_repetition_is_repeated_and_another_outcome_is_stale() {
    let scene = Scene::new().await;
    let worker = scene.worker(1).await;
    for (nth, outcome) in outcomes().into_iter().enumerate() {
        scene.run("TRUNCATE taskq.jobs").await;
        scene.enqueue(1, 1).await;
        let attempt = claim(&scene.client, worker, 1).await.unwrap();
        assert_eq!(settle(&scene.client, worker, &attempt, &outcome).await[0].reason, "applied");
        let before = everything(&scene).await;
        assert_eq!(
            settle(&scene.client, worker, &attempt, &outcome).await[0].reason,
            "repeated",
            "{outcome}"
        );
        for (_, other) in outcomes().iter().enumerate().filter(|(other, _)| *other != nth) {
            assert_eq!(
                settle(&scene.client, worker, &attempt, other).await[0].reason,
                "stale",
                "{outcome}, {other}"
            );
        }
        scene.expire(worker).await;
        assert_eq!(
            settle(&scene.client, worker, &attempt, &outcome).await[0].reason,
            "repeated",
            "after the lease"
        );
        scene.run("UPDATE taskq.workers SET lease_expires_at = now() + interval '1 hour'").await;
        assert_eq!(everything(&scene).await, before);
    }
}

#[tokio::test]
async fn a_job_claimed_again_refuses_its_earlier_attempt() {
    let scene = Scene::new().await;
    let worker = scene.worker(1).await;
    scene.enqueue(1, 1).await;
    let first = claim(&scene.client, worker, 1).await.unwrap()[0];
    settle(&scene.client, worker, &[first], &json!({"outcome": "released"})).await;
    let second = claim(&scene.client, worker, 1).await.unwrap()[0];
    assert_eq!(
        second,
        Attempt { epoch: first.epoch + 1, ..first },
        "the attempt number was given back, the epoch not"
    );
    let both = settle(&scene.client, worker, &[first, second], &json!({"outcome": "succeeded"})).await;
    let reasons: Vec<&str> = both.iter().map(|verdict| verdict.reason.as_str()).collect();
    assert_eq!(reasons, ["stale", "applied"]);
}

#[tokio::test]
async fn a_malformed_outcome_refuses_the_whole_call() {
    let scene = Scene::new().await;
    let worker = scene.worker(1).await;
    scene.enqueue(2, 1).await;
    let attempts = claim(&scene.client, worker, 2).await.unwrap();
    let before = everything(&scene).await;
    let good = json!({"id": attempts[0].id, "epoch": 1, "outcome": "succeeded"});
    let with = |fields: Value| {
        let mut document = json!({"id": attempts[1].id, "epoch": 1, "outcome": "succeeded"});
        document.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        document
    };
    let cases = [
        (json!(1), "a JSON number, not an object"),
        (with(json!({"id": 1})), "id is not a UUID"),
        (with(json!({"epoch": "1"})), "epoch is not a number"),
        (with(json!({"epoch": 1.5})), "epoch is out of range"),
        (with(json!({"epoch": 1e30})), "epoch is out of range"),
        (with(json!({"outcome": "done"})), "outcome is not one of"),
        (with(json!({"outcome": null})), "outcome is not one of"),
        (with(json!({"results": 1})), "unknown field \"results\""),
        (with(json!({"outcome": "released", "result": 1})), "result belongs to succeeded"),
        (with(json!({"error": {}})), "error belongs to failed, cancelled or abandoned"),
        (with(json!({"final": true})), "final belongs to failed"),
        (with(json!({"outcome": "failed", "final": 1})), "final is not a boolean"),
        (with(json!({"outcome": "failed", "error": "x"})), "error is not an object"),
        (with(json!({"outcome": "failed", "error": {"message": 1}})), "a field of error is not a string"),
        (with(json!({"outcome": "failed", "error": {"text": "x"}})), "error has an unknown field"),
        (with(json!({"outcome": "snoozed"})), "snoozed needs a delay"),
        (with(json!({"outcome": "snoozed", "delay": "x"})), "delay is not a valid interval"),
        (with(json!({"outcome": "snoozed", "delay": "-1 s"})), "delay is negative"),
        (with(json!({"outcome": "failed", "delay": 3})), "delay is a JSON number"),
        (with(json!({"result": "x".repeat(1_048_576)})), "result has 1048578 bytes"),
    ];
    for (bad, message) in cases {
        let outcomes = json!([good, bad]);
        let error = scene
            .client
            .query("SELECT * FROM taskq.settle($1, $2)", &[&worker, &outcomes])
            .await
            .expect_err(&format!("accepted: {bad}"));
        let error = raised(&error);
        assert_eq!((error.code().code(), error.detail()), ("TQ002", Some("1")), "{bad}");
        assert!(error.message().contains(message), "{bad}: {}", error.message());
    }
    assert_eq!(everything(&scene).await, before);
}

#[tokio::test]
async fn an_error_of_any_length_is_recorded_cut_at_a_character() {
    let scene = Scene::new().await;
    let worker = scene.worker(1).await;
    scene.enqueue(1, 1).await;
    let attempt = claim(&scene.client, worker, 1).await.unwrap();
    let error =
        json!({"class": "é".repeat(200), "message": "€".repeat(2_000_000), "backtrace": "x".repeat(70_000)});
    let settled =
        settle(&scene.client, worker, &attempt, &json!({"outcome": "failed", "error": error})).await;
    assert_eq!(settled[0].reason, "applied");
    let lengths: Vec<i32> = scene
        .value(
            "SELECT ARRAY[octet_length(error ->> 'class'), octet_length(error ->> 'message'),
                octet_length(error ->> 'backtrace')] FROM taskq.jobs",
        )
        .await;
    assert_eq!(lengths, [254, 65_535, 65_536]);
}

/// A claim that looked at its worker before the worker was declared lost must not take jobs afterwards: nobody
/// would ever look for jobs of a worker that is lost already.
#[tokio::test]
async fn a_claim_that_meets_the_loss_of_its_worker_takes_nothing() {
    let scene = Scene::new().await;
    let worker = scene.worker(2).await;
    scene.enqueue(10, 2).await;
    scene.run(&format!("BEGIN; SELECT FROM taskq.workers WHERE id = '{worker}' FOR UPDATE")).await;
    scene.run(&format!("UPDATE taskq.workers SET state = 'lost' WHERE id = '{worker}'")).await;
    let pid = backend_pid(&scene.client).await;
    let (claimer, observer) = (scene.session().await, scene.session().await);
    let claiming = tokio::spawn(async move { claim(&claimer, worker, 5).await });
    until_blocked_by(&observer, pid).await;
    scene.run("COMMIT").await;
    let error = claiming.await.unwrap().unwrap_err();
    assert_eq!(raised(&error).code().code(), "TQ001");
    assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.jobs WHERE status = 'running'").await, 0);
}

/// A settle that waited for the row finds its new place.
#[tokio::test]
async fn a_settle_that_waited_for_another_writer_is_applied_to_what_that_one_left() {
    let scene = Scene::new().await;
    let worker = scene.worker(1).await;
    scene.enqueue(1, 1).await;
    let attempts = claim(&scene.client, worker, 1).await.unwrap();
    scene.run("BEGIN; UPDATE taskq.jobs SET metadata = '{\"moved\": true}'").await;
    let pid = backend_pid(&scene.client).await;
    let (settler, observer) = (scene.session().await, scene.session().await);
    let settling =
        tokio::spawn(
            async move { settle(&settler, worker, &attempts, &json!({"outcome": "succeeded"})).await },
        );
    until_blocked_by(&observer, pid).await;
    scene.run("COMMIT").await;
    assert_eq!(settling.await.unwrap()[0].reason, "applied");
    let kept = "SELECT status::text || metadata::text FROM taskq.jobs";
    assert_eq!(scene.value::<String>(kept).await, "succeeded{\"moved\": true}");
}

#[tokio::test]
async fn a_claim_of_an_ended_session_says_so_even_when_nothing_is_ready() {
    let scene = Scene::new().await;
    let worker = scene.worker(1).await;
    scene.expire(worker).await;
    for who in [worker, Uuid::now_v7()] {
        let error = claim(&scene.client, who, 5).await.unwrap_err();
        assert_eq!(raised(&error).code().code(), "TQ001");
        let error =
            scene.client.query("SELECT * FROM taskq.heartbeat($1, '30 s')", &[&who]).await.unwrap_err();
        assert_eq!(raised(&error).code().code(), "TQ001", "a beat revives nobody");
    }
}

#[tokio::test]
async fn a_beat_does_not_wait_for_a_job_that_is_locked() {
    let scene = Scene::new().await;
    let worker = scene.worker(1).await;
    scene.enqueue(2, 1).await;
    let attempts = claim(&scene.client, worker, 2).await.unwrap();
    let beating = scene.session().await;
    scene.run(&format!("BEGIN; SELECT FROM taskq.jobs WHERE id = '{}' FOR UPDATE", attempts[0].id)).await;
    let notes: Vec<Value> =
        attempts.iter().map(|a| json!({"id": a.id, "epoch": a.epoch, "progress": {"done": 1}})).collect();
    beating
        .query("SELECT * FROM taskq.heartbeat($1, '30 s', $2)", &[&worker, &Value::from(notes)])
        .await
        .unwrap();
    scene.run("COMMIT").await;
    let noted: Vec<bool> =
        scene.value("SELECT array_agg(progress IS NOT NULL ORDER BY id) FROM taskq.jobs").await;
    assert_eq!(noted, [false, true]);
}
