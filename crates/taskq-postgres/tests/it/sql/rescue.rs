//! Lost workers and leaders, with the interleavings that matter held open.

use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

use super::mutant::Mutant;
use super::scene::{Attempt, Scene, claim, raised, settle};

/// Makes a worker the leader and returns its epoch; `None` when another one leads.
async fn lead(client: &Client, worker: Uuid) -> Option<i64> {
    let beat = "SELECT epoch FROM taskq.heartbeat($1, '1 hour', NULL, '1 hour') WHERE kind = 'leader'";
    client.query_opt(beat, &[&worker]).await.unwrap().map(|row| row.get(0))
}

async fn mark_lost(client: &Client, leader: Uuid, epoch: i64) -> i64 {
    client
        .query_one("SELECT swept FROM taskq.mark_lost($1, $2, 100)", &[&leader, &epoch])
        .await
        .unwrap()
        .get(0)
}

/// Where a reclaim goes on.
type Place = (Option<std::time::SystemTime>, Option<String>);
/// The job, its status and the problem of one that was looked at.
type Looked = (Uuid, String, Option<String>);

/// Reclaims one batch; returns every job looked at, and where to go on.
async fn reclaim_some(
    client: &Client,
    leader: Uuid,
    epoch: i64,
    skip: &[Uuid],
    place: &Place,
) -> (Vec<Looked>, Option<Place>) {
    let rows = client
        .query(
            "SELECT id, status, problem, reached_at, reached_id
             FROM taskq.reclaim($1, $2, 1000, skip => $3, after_at => $4, after_id => $5)",
            &[&leader, &epoch, &skip, &place.0, &place.1],
        )
        .await
        .unwrap();
    let reached = rows.last().filter(|row| row.get::<_, Option<Uuid>>(0).is_none());
    let reached = reached.map(|row| (row.get(3), row.get(4)));
    let jobs = rows.iter().take(rows.len() - usize::from(reached.is_some()));
    (jobs.map(|row| (row.get(0), row.get(1), row.get(2))).collect(), reached)
}

/// Reclaims all that there is; returns status and problem of every job looked at.
async fn reclaim(client: &Client, leader: Uuid, epoch: i64, skip: &[Uuid]) -> Vec<Looked> {
    let (mut jobs, mut place) = (Vec::new(), Some((None, None)));
    while let Some(from) = place {
        let (more, reached) = reclaim_some(client, leader, epoch, skip, &from).await;
        jobs.extend(more);
        place = reached;
    }
    jobs
}

/// A claim under way when its worker's lease ends: it is either seen whole by the reclaim or takes nothing.
#[tokio::test]
async fn a_claim_that_commits_after_the_leader_looked_is_reclaimed_in_the_next_round() {
    let scene = Scene::new().await;
    let (worker, leader) = (scene.worker(2).await, scene.worker(1).await);
    let epoch = lead(&scene.client, leader).await.unwrap();
    scene.enqueue(10, 2).await;
    let claimer = scene.session().await;
    claimer.batch_execute("BEGIN").await.unwrap();
    let claimed = claim(&claimer, worker, 5).await.unwrap();
    assert_eq!(claimed.len(), 5);
    scene.expire(worker).await;
    assert_eq!(mark_lost(&scene.client, leader, epoch).await, 0, "not while its claim is under way");
    assert!(reclaim(&scene.client, leader, epoch, &[]).await.is_empty());
    claimer.batch_execute("COMMIT").await.unwrap();
    assert_eq!(mark_lost(&scene.client, leader, epoch).await, 1);
    let taken = reclaim(&scene.client, leader, epoch, &[]).await;
    assert_eq!(taken.len(), 5);
    assert!(taken.iter().all(|(_, status, problem)| status == "scheduled" && problem.is_none()));
    assert_eq!(raised(&claim(&scene.client, worker, 5).await.unwrap_err()).code().code(), "TQ001");
    let late = settle(&scene.client, worker, &claimed, &json!({"outcome": "succeeded"})).await;
    assert!(late.iter().all(|verdict| verdict.reason == "stale"));
}

#[tokio::test]
async fn nobody_takes_over_while_a_sweep_of_the_leader_is_under_way() {
    let scene = Scene::new().await;
    let (old, new) = (scene.worker(1).await, scene.worker(1).await);
    let epoch = lead(&scene.client, old).await.unwrap();
    scene
        .run(r#"SELECT * FROM taskq.enqueue('{"actor": "a", "payload": 1, "delay": "1 microsecond"}')"#)
        .await;
    let sweeper = scene.session().await;
    sweeper.batch_execute("BEGIN").await.unwrap();
    let promoted: i64 = sweeper
        .query_one("SELECT swept FROM taskq.promote($1, $2, 10)", &[&old, &epoch])
        .await
        .unwrap()
        .get(0);
    assert_eq!(promoted, 1);
    assert_eq!(
        lead(&scene.client, old).await,
        Some(epoch),
        "its own sweep does not keep the leader from renewing"
    );
    scene.run("UPDATE taskq.leader SET expires_at = now() - interval '1 s'").await;
    assert_eq!(lead(&scene.client, new).await, None, "the sweep still runs");
    sweeper.batch_execute("COMMIT").await.unwrap();
    assert_eq!(lead(&scene.client, new).await, Some(epoch + 1));
    for sweep in [
        "promote($1, $2, 10)",
        "mark_lost($1, $2, 10)",
        "reclaim($1, $2, 10)",
        "forget_workers($1, $2, 10)",
        "sweeps_due($1, $2, '[]')",
        "note_sweeps($1, $2, '[]')",
    ] {
        let error =
            scene.client.query(&format!("SELECT * FROM taskq.{sweep}"), &[&old, &epoch]).await.unwrap_err();
        assert_eq!(raised(&error).code().code(), "TQ005", "{sweep} of the old leader");
    }
}

#[tokio::test]
async fn a_row_that_cannot_be_moved_is_reported_and_holds_up_no_other() {
    let scene = Scene::new().await;
    let (worker, leader) = (scene.worker(1).await, scene.worker(1).await);
    let epoch = lead(&scene.client, leader).await.unwrap();
    scene.enqueue(100, 1).await;
    assert_eq!(claim(&scene.client, worker, 100).await.unwrap().len(), 100);
    scene
        .run("ALTER TABLE taskq.jobs ADD CONSTRAINT unlucky CHECK (payload <> '13' OR status <> 'scheduled') NOT VALID")
        .await;
    scene.expire(worker).await;
    assert_eq!(mark_lost(&scene.client, leader, epoch).await, 1);
    let taken = reclaim(&scene.client, leader, epoch, &[]).await;
    let problems: Vec<_> = taken.iter().filter(|(_, _, problem)| problem.is_some()).collect();
    assert_eq!((taken.len(), problems.len()), (100, 1));
    let (unlucky, status, problem) = problems[0];
    assert_eq!(status, "running");
    assert!(problem.as_ref().unwrap().contains("unlucky"), "{problem:?}");
    assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.jobs WHERE status = 'scheduled'").await, 99);
    assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.job_attempts").await, 99);
    assert!(reclaim(&scene.client, leader, epoch, &[*unlucky]).await.is_empty(), "passed over when told so");
    assert_eq!(reclaim(&scene.client, leader, epoch, &[]).await.len(), 1, "and looked at again when not");
}

/// Buffers that a beat with 50 notes of progress touches; the least of three.
async fn cost_of_a_beat(scene: &Scene, worker: Uuid, attempts: &[Attempt]) -> i64 {
    let notes: Vec<Value> =
        attempts.iter().map(|a| json!({"id": a.id, "epoch": a.epoch, "progress": 1})).collect();
    let query = format!(
        "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) SELECT * FROM taskq.heartbeat('{worker}', '1 hour', '{}')",
        Value::from(notes)
    );
    let mut least = i64::MAX;
    for _ in 0..3 {
        let plan: Value = scene.client.query_one(query.as_str(), &[]).await.unwrap().get(0);
        let blocks = &plan[0]["Plan"];
        let touched =
            blocks["Shared Hit Blocks"].as_i64().unwrap() + blocks["Shared Read Blocks"].as_i64().unwrap();
        least = least.min(touched);
    }
    least
}

/// Buffers that a beat with 50 notes touches for a worker that runs 9,951 jobs, with plans made when it ran one.
async fn cost_of_a_late_beat(mutant: Option<Mutant>) -> i64 {
    let scene = Scene::new().await;
    scene.run("ALTER TABLE taskq.jobs SET (autovacuum_enabled = off)").await;
    if let Some(mutant) = mutant {
        mutant.apply(&scene).await;
    }
    let worker = scene.worker(1).await;
    scene.enqueue(1, 1).await;
    let first = claim(&scene.client, worker, 1).await.unwrap();
    cost_of_a_beat(&scene, worker, &first).await;
    scene.enqueue(9_950, 1).await;
    let attempts = claim(&scene.client, worker, 9_950).await.unwrap();
    cost_of_a_beat(&scene, worker, &attempts[9_900..]).await
}

/// A row that is re-found by its key and its status must not be looked for among all running rows of the worker.
#[tokio::test]
async fn a_beat_costs_what_it_notes_and_not_what_its_worker_runs() {
    let buffers = cost_of_a_late_beat(None).await;
    assert!(buffers <= 1_000, "{buffers} buffers");
    // A session may have to forget its plans, when many others change their catalogs, and then makes better ones.
    for _ in 0..3 {
        let by_status = Mutant::of("heartbeat").replace("j.status::text = 'running'", "j.status = 'running'");
        if cost_of_a_late_beat(Some(by_status)).await > 1_000 {
            return;
        }
    }
    panic!("rows re-found by a status are not seen");
}

/// To look whether lost workers hold jobs costs one probe each, whatever runs, also with plans made when nothing did.
#[tokio::test]
async fn dealing_with_lost_workers_does_not_read_what_runs() {
    let scene = Scene::new().await;
    scene.run("ALTER TABLE taskq.jobs SET (autovacuum_enabled = off); ALTER TABLE taskq.workers SET (autovacuum_enabled = off)").await;
    let (worker, leader) = (scene.worker(1).await, scene.worker(1).await);
    let epoch = lead(&scene.client, leader).await.unwrap();
    let probes = r#"[{"sweep": "mark_lost"}, {"sweep": "reclaim"}, {"sweep": "workers"}]"#;
    let calls = [
        format!("sweeps_due('{leader}', {epoch}, '{probes}')"),
        format!("reclaim('{leader}', {epoch}, 100)"),
        format!("forget_workers('{leader}', {epoch}, 100)"),
    ];
    for call in &calls {
        scene.run(&format!("SELECT * FROM taskq.{call}")).await;
    }
    scene.enqueue(10_000, 1).await;
    assert_eq!(claim(&scene.client, worker, 10_000).await.unwrap().len(), 10_000);
    scene
        .run(
            "INSERT INTO taskq.workers (id, state, started_at, beat_at, lease_expires_at, queues, actors)
             SELECT gen_random_uuid(), 'lost', now(), now(), now() - interval '2 h', '{q}', '{a}' FROM generate_series(1, 20)",
        )
        .await;
    for call in &calls {
        let explain =
            format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) SELECT * FROM taskq.{call}");
        let plan: Value = scene.client.query_one(explain.as_str(), &[]).await.unwrap().get(0);
        let touched = plan[0]["Plan"]["Shared Hit Blocks"].as_i64().unwrap();
        assert!(touched < 1_000, "{call}: {touched} buffers");
    }
    assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.workers").await, 2);
}

/// What an operator meant is tested again once the rows are locked.
#[tokio::test]
async fn a_retry_by_filter_that_waited_leaves_what_has_changed_meanwhile() {
    let scene = Scene::new().await;
    let worker = scene.worker(1).await;
    scene.enqueue(1, 1).await;
    let attempts = claim(&scene.client, worker, 1).await.unwrap();
    settle(&scene.client, worker, &attempts, &json!({"outcome": "failed", "final": true})).await;
    scene.run("BEGIN; UPDATE taskq.jobs SET status = 'succeeded'").await;
    let pid = super::scene::backend_pid(&scene.client).await;
    let (operator, observer) = (scene.session().await, scene.session().await);
    let retrying = tokio::spawn(async move {
        let call = "SELECT retried FROM taskq.retry_matching('{\"status\": [\"failed\"]}', 10)";
        operator.query_one(call, &[]).await.unwrap().get::<_, i64>(0)
    });
    super::scene::until_blocked_by(&observer, pid).await;
    scene.run("COMMIT").await;
    assert_eq!(retrying.await.unwrap(), 0);
    assert_eq!(scene.value::<String>("SELECT status::text FROM taskq.jobs").await, "succeeded");
}

/// An outcome that was never recorded is not a repetition, even where its job has ended as it would have.
#[tokio::test]
async fn a_late_outcome_of_a_job_that_reclaim_has_cancelled_is_stale() {
    let scene = Scene::new().await;
    let (worker, leader) = (scene.worker(1).await, scene.worker(1).await);
    let epoch = lead(&scene.client, leader).await.unwrap();
    scene.enqueue(1, 1).await;
    let attempts = claim(&scene.client, worker, 1).await.unwrap();
    scene.run("SELECT * FROM taskq.cancel((SELECT array_agg(id) FROM taskq.jobs))").await;
    scene.expire(worker).await;
    mark_lost(&scene.client, leader, epoch).await;
    assert_eq!(reclaim(&scene.client, leader, epoch, &[]).await[0].1, "cancelled");
    for outcome in [
        json!({"outcome": "failed"}),
        json!({"outcome": "snoozed", "delay": "1 s"}),
        json!({"outcome": "released"}),
    ] {
        assert_eq!(settle(&scene.client, worker, &attempts, &outcome).await[0].reason, "stale", "{outcome}");
    }
}

#[tokio::test]
async fn the_verbs_of_operators_refuse_what_they_cannot_mean() {
    let scene = Scene::new().await;
    let nil = Uuid::nil();
    for (call, message) in [
        ("cancel(NULL)".to_owned(), "an id is null"),
        ("cancel(ARRAY[NULL]::uuid[])".to_owned(), "an id is null"),
        (format!("cancel(array_fill('{nil}'::uuid, ARRAY[10001]))"), "10001 ids, more than 10000"),
        ("retry(NULL)".to_owned(), "an id is null"),
        ("pause('lane', 'x')".to_owned(), "kind is neither"),
        ("pause(NULL, 'x')".to_owned(), "kind is neither"),
        ("pause('queue', '')".to_owned(), "queue is empty"),
        ("resume('actor', NULL)".to_owned(), "actor is null"),
        ("cancel_matching(NULL, 10)".to_owned(), "not a JSON object"),
        ("cancel_matching('[]', 10)".to_owned(), "not a JSON object"),
        (r#"cancel_matching('{"colour": 1}', 10)"#.to_owned(), "unknown field \"colour\""),
        (r#"cancel_matching('{"queue": 1}', 10)"#.to_owned(), "queue of the filter is not a string"),
        (r#"cancel_matching('{"status": "failed"}', 10)"#.to_owned(), "status of the filter is not an array"),
        (r#"cancel_matching('{"status": []}', 10)"#.to_owned(), "status of the filter is empty"),
        (r#"retry_matching('{"status": ["done"]}', 10)"#.to_owned(), "unknown status \"done\""),
        (r#"retry_matching('{"status": [null]}', 10)"#.to_owned(), "unknown status"),
        ("retry_matching('{}', 0)".to_owned(), "max_rows is not between 1 and 100000"),
    ] {
        let error = scene.client.query(&format!("SELECT * FROM taskq.{call}"), &[]).await.expect_err(&call);
        assert_eq!(raised(&error).code().code(), "TQ002", "{call}");
        assert!(raised(&error).message().contains(message), "{call}: {}", raised(&error).message());
    }
}
