//! What a claim reads does not depend on what is there, on statistics or on when its plans were made.

use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

use super::mutant::Mutant;
use super::scene::Scene;

/// The most buffers that a claim of 50 jobs from 8 lanes may touch.
const BUFFERS: i64 = 1_000;

/// Buffers touched by one claim of 50 jobs, and how many it returned.
async fn claim_once(client: &Client, worker: Uuid) -> (i64, i64) {
    let query = format!(
        "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON)
         SELECT * FROM taskq.claim(ARRAY['q'], 50, '{worker}', '1 hour')"
    );
    let plan: Value = client.query_one(query.as_str(), &[]).await.unwrap().get(0);
    let node = &plan[0]["Plan"];
    let number = |name: &str| {
        // Whole in 15 to 17, with decimals in 18.
        node[name].as_f64().unwrap_or_else(|| panic!("no {name} in {plan}"))
    };
    #[expect(clippy::cast_possible_truncation, reason = "counts are far below 2^53")]
    let whole = |value: f64| value.round() as i64;
    (whole(number("Shared Hit Blocks") + number("Shared Read Blocks")), whole(number("Actual Rows")))
}

/// Buffers that a claim of 50 jobs touches: the least of three, since a session now and then reads the catalog again
/// when many others change theirs, and the first claim after a bulk insert also cleans pages.
async fn cost(scene: &Scene, worker: Uuid) -> i64 {
    let mut least = i64::MAX;
    for _ in 0..3 {
        let (buffers, rows) = claim_once(&scene.client, worker).await;
        assert_eq!(rows, 50);
        least = least.min(buffers);
    }
    least
}

/// A queue whose tables are never analyzed by themselves.
async fn scene() -> Scene {
    let scene = Scene::new().await;
    scene.run("ALTER TABLE taskq.jobs SET (autovacuum_enabled = off)").await;
    scene
}

/// A worker of 8 lanes whose session has run every statement of a claim often enough to have its plan cached, when the
/// table held next to nothing.
async fn with_early_plans(scene: &Scene) -> Uuid {
    let worker = scene.worker(8).await;
    for _ in 0..8 {
        scene.enqueue(2, 2).await;
        assert_eq!(claim_once(&scene.client, worker).await.1, 2);
    }
    worker
}

/// Fills the lanes up to `ready` jobs.
async fn fill(scene: &Scene, ready: usize) {
    let there: i64 = scene.value("SELECT count(*) FROM taskq.jobs WHERE status = 'pending'").await;
    scene
        .run(&format!(
            "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload)
             SELECT taskq.make_id(now(), n), now(), now() + n * interval '1 microsecond', 'pending', 'q',
                 'actor' || n % 8, to_jsonb(n)
             FROM generate_series({there} + 1, {ready}) n"
        ))
        .await;
}

#[tokio::test]
async fn a_claim_of_fifty_is_bounded_at_every_depth_with_plans_of_an_empty_table() {
    let scene = scene().await;
    let worker = with_early_plans(&scene).await;
    let mut costs = Vec::new();
    for ready in [1_000, 30_000] {
        fill(&scene, ready).await;
        let buffers = cost(&scene, worker).await;
        assert!(buffers <= BUFFERS, "{buffers} buffers at {ready} ready jobs");
        costs.push(buffers);
    }
    assert!(costs[1] * 100 <= costs[0] * 125, "grows with the backlog: {costs:?}");
}

#[tokio::test]
async fn settings_of_the_session_change_neither_the_answer_nor_its_cost() {
    let scene = scene().await;
    let worker = with_early_plans(&scene).await;
    fill(&scene, 30_000).await;
    for settings in [
        "SET plan_cache_mode = force_generic_plan",
        "SET plan_cache_mode = force_custom_plan",
        "SET jit = on; SET jit_above_cost = 0; SET jit_optimize_above_cost = 0; SET jit_inline_above_cost = 0",
        "SET enable_indexscan = on; SET random_page_cost = 1000",
        "SET enable_seqscan = on; SET enable_bitmapscan = on; SET cpu_tuple_cost = 0",
        "ANALYZE taskq.jobs",
    ] {
        scene.run("RESET ALL").await;
        scene.run(settings).await;
        let buffers = cost(&scene, worker).await;
        assert!(buffers <= BUFFERS, "{buffers} buffers under {settings}");
    }
}

#[tokio::test]
async fn statistics_taken_when_the_table_was_empty_do_no_harm() {
    let scene = scene().await;
    scene.run("ANALYZE taskq.jobs").await;
    let worker = scene.worker(8).await;
    fill(&scene, 30_000).await;
    let buffers = cost(&scene, worker).await;
    assert!(buffers <= BUFFERS, "{buffers} buffers");
}

/// The first trap: without its pins, the function's plans are what the planner thought of an empty table.
#[tokio::test]
async fn the_oracle_sees_the_pins_go() {
    let scene = scene().await;
    Mutant::of("claim_group").without_pins().apply(&scene).await;
    let worker = with_early_plans(&scene).await;
    fill(&scene, 30_000).await;
    let buffers = cost(&scene, worker).await;
    assert!(buffers > BUFFERS, "the pins do nothing: {buffers} buffers without them");
}

/// The second trap: a lane named by a list instead of by equality sorts the backlog.
#[tokio::test]
async fn the_oracle_sees_a_list_of_lanes() {
    let scene = scene().await;
    Mutant::of("claim_group")
        .replace(
            "j.queue = l.queue AND j.actor = l.actor AND",
            "j.queue = ANY (lane_queues) AND j.actor = l.actor AND",
        )
        .apply(&scene)
        .await;
    let worker = with_early_plans(&scene).await;
    fill(&scene, 30_000).await;
    let buffers = cost(&scene, worker).await;
    assert!(buffers > BUFFERS, "a list of lanes is not seen: {buffers} buffers");
}

/// The third trap: a row re-found by its key and a status can be served by an index on that status.
#[tokio::test]
async fn the_oracle_sees_rows_re_found_by_key_and_status() {
    let scene = scene().await;
    Mutant::of("claim_group")
        .replace("SELECT j.ctid AS tid, coalesce", "SELECT j.id AS tid, coalesce")
        .replace("tids tid[]", "tids uuid[]")
        .replace("WHERE j.ctid = ANY (tids)", "WHERE j.id = ANY (tids) AND j.status = 'pending'")
        .apply(&scene)
        .await;
    let worker = with_early_plans(&scene).await;
    // Deep enough that reading the whole index shows.
    fill(&scene, 100_000).await;
    let buffers = cost(&scene, worker).await;
    assert!(buffers > BUFFERS, "rows re-found by a status are not seen: {buffers} buffers");
}

/// And the oracle itself can fail: without the index that the claim relies on.
#[tokio::test]
async fn the_oracle_sees_the_index_go() {
    let scene = scene().await;
    let worker = with_early_plans(&scene).await;
    fill(&scene, 30_000).await;
    scene.run("DROP INDEX taskq.jobs_ready_idx").await;
    let buffers = cost(&scene, worker).await;
    assert!(buffers > BUFFERS, "{buffers} buffers");
}
