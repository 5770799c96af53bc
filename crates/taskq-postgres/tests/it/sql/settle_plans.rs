//! What a settle reads does not depend on what is there, on statistics or on when its plans were made.

use serde_json::{Value, json};
use taskq_testkit::{Options, PgSource, PrivateServer};
use uuid::Uuid;

use super::mutant::Mutant;
use super::scene::{Scene, claim};

/// The most buffers that the settle of 50 jobs may touch: as successes, with results, as failures.
const BUFFERS: [i64; 3] = [700, 800, 1_500];

/// Settles jobs that it claims for that; answers the buffers that were touched.
async fn settle_once(scene: &Scene, worker: Uuid, jobs: i32, how: usize) -> i64 {
    let mut attempts = claim(&scene.client, worker, jobs).await.unwrap();
    attempts.sort_by_key(|attempt| attempt.id);
    let list = |of: &dyn Fn(usize) -> String| {
        let items: Vec<_> = (0..attempts.len()).map(of).collect();
        format!("ARRAY[{}]", items.join(", "))
    };
    let (word, detail) = [
        ("succeeded", None),
        ("succeeded", Some(json!({"result": {"ok": true}}))),
        ("failed", Some(json!({"error": {"class": "c", "message": "m"}}))),
    ][how]
        .clone();
    let query = format!(
        "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON)
         SELECT * FROM taskq.settle_batch('{worker}', {}::uuid[], {}::bigint[], {}, {})",
        list(&|nth| format!("'{}'", attempts[nth].id)),
        list(&|nth| attempts[nth].epoch.to_string()),
        list(&|_| format!("'{word}'")),
        detail.map_or_else(
            || "NULL".to_owned(),
            |detail| format!("{}::jsonb[]", list(&|_| format!("'{detail}'")))
        ),
    );
    let plan: Value = scene.client.query_one(query.as_str(), &[]).await.unwrap().get(0);
    let node = &plan[0]["Plan"];
    let blocks = |name: &str| node[name].as_i64().unwrap_or_else(|| panic!("no {name} in {plan}"));
    blocks("Shared Hit Blocks") + blocks("Shared Read Blocks")
}

/// A worker whose session has cached every plan of a settle when the table held next to nothing and its statistics said
/// that it was empty; then 30,000 jobs come, of which the worker runs 2,000.
async fn busy(scene: &Scene) -> Uuid {
    scene.run("ALTER TABLE taskq.jobs SET (autovacuum_enabled = off)").await;
    scene.run("VACUUM ANALYZE taskq.jobs").await;
    let worker = scene.worker(8).await;
    for how in [0, 1, 2].repeat(8) {
        scene.enqueue(2, 2).await;
        settle_once(scene, worker, 2, how).await;
    }
    scene
        .run(
            "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload)
             SELECT taskq.make_id(now(), n), now(), now(), 'pending', 'q', 'actor' || n % 8, to_jsonb(n)
             FROM generate_series(1, 30000) n",
        )
        .await;
    claim(&scene.client, worker, 2_000).await.unwrap();
    worker
}

/// The least of three, since a session now and then reads the catalog again, and pages are cleaned now and then.
async fn cost(scene: &Scene, worker: Uuid, how: usize) -> i64 {
    let mut least = i64::MAX;
    for _ in 0..3 {
        least = least.min(settle_once(scene, worker, 50, how).await);
    }
    least
}

/// The costs of a settle of each kind, with functions changed by `mutants`.
async fn costs(server: &PrivateServer, mutants: impl IntoIterator<Item = Mutant>) -> Vec<i64> {
    let scene = Scene::of(crate::database::migrated_on(server.cluster()).await).await;
    for mutant in mutants {
        mutant.apply(&scene).await;
    }
    let worker = busy(&scene).await;
    let mut costs = Vec::new();
    for how in 0..BUFFERS.len() {
        costs.push(cost(&scene, worker, how).await);
    }
    costs
}

/// On a server of its own: where others change their catalogs, a session may have to forget its plans, and would make
/// better ones from what the table has become.
#[tokio::test]
async fn a_settle_of_fifty_is_bounded_with_plans_of_an_empty_table() {
    let options = Options::for_tests(PgSource::from_env().unwrap()).setting("autovacuum", "off");
    let server = PrivateServer::start(options).await.unwrap();
    let costs_now = costs(&server, []).await;
    assert!(costs_now.iter().zip(BUFFERS).all(|(cost, bound)| *cost <= bound), "{costs_now:?}");

    // A join by plain equality reads all jobs in the order of their key, when that was short.
    let by_equality = Mutant::of("settle_succeeded").replace("j.id = ANY (ARRAY[o.id])", "j.id = o.id");
    let broken = costs(&server, [by_equality]).await;
    assert!(broken[1] > BUFFERS[1], "a join by equality is not seen: {broken:?}");

    // A status that an index of running jobs can prove makes that index read all that the worker runs.
    let by_status =
        Mutant::of("settle_succeeded").replace("j.status::text = 'running'", "j.status = 'running'");
    let broken = costs(&server, [by_status]).await;
    assert!(broken[0] > BUFFERS[0], "rows found by their status are not seen: {broken:?}");

    // Without its pins a settle reads what the planner thought best of an empty table.
    let unpinned = ["settle_batch", "settle_succeeded"].map(|function| Mutant::of(function).without_pins());
    let broken = costs(&server, unpinned).await;
    assert!(broken[0] > BUFFERS[0], "the pins do nothing: {broken:?}");
}
