//! What a claim of a queue in `round_robin` mode reads does not depend on how many cohorts there are, how deep they are, on
//! statistics or on when its plans were made.

use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

use super::mutant::Mutant;
use super::scene::Scene;

/// The most buffers that a claim of 50 jobs may touch.
const BUFFERS: i64 = 1_000;

/// Buffers touched by one statement, and how many rows it returned.
async fn explain(client: &Client, sql: &str) -> (i64, i64) {
    let query = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {sql}");
    let plan: Value = client.query_one(query.as_str(), &[]).await.unwrap().get(0);
    let node = &plan[0]["Plan"];
    let number = |name: &str| node[name].as_f64().unwrap_or_else(|| panic!("no {name} in {plan}"));
    #[expect(clippy::cast_possible_truncation, reason = "counts are far below 2^53")]
    let whole = |value: f64| value.round() as i64;
    (whole(number("Shared Hit Blocks") + number("Shared Read Blocks")), whole(number("Actual Rows")))
}

/// A claim of 50 jobs behind a turn.
fn claim(worker: Uuid, actor: &str, cohort: &str) -> String {
    format!(
        "SELECT * FROM taskq.claim_slots('{worker}', ARRAY['q'], ARRAY[50], '1 hour', 2, ARRAY['{actor}'], ARRAY['{cohort}'])"
    )
}

/// Buffers that a claim of 50 jobs touches: the least of three, each behind another turn, since a session now and then
/// reads the catalog again, and the first claim after a bulk insert also cleans pages.
async fn cost(scene: &Scene, worker: Uuid) -> i64 {
    let mut least = i64::MAX;
    for cohort in ["k00003", "k03000", "k06000"] {
        let (buffers, rows) = explain(&scene.client, &claim(worker, "actor0", cohort)).await;
        assert_eq!(rows, 50);
        least = least.min(buffers);
    }
    least
}

/// Queue `q` in `round_robin` mode, in tables that are never analyzed by themselves, and a worker of so many actors whose
/// session has run every statement of a claim often enough to have its plan cached, when the table held next to nothing.
async fn with_early_plans(actors: usize) -> (Scene, Uuid) {
    let scene = Scene::new().await;
    scene.run("ALTER TABLE taskq.jobs SET (autovacuum_enabled = off)").await;
    scene.run("SELECT taskq.set_queue('q', 'round_robin')").await;
    let worker = scene.worker(actors).await;
    warm(&scene, worker).await;
    (scene, worker)
}

async fn warm(scene: &Scene, worker: Uuid) {
    for n in 0..8 {
        // By turns a ring that is larger than the claim, and one that is smaller.
        let want = 1 + n % 2 * 9;
        add(scene, "actor0", 3, 2).await;
        let sql = claim(worker, "actor0", "k00001").replace("ARRAY[50]", &format!("ARRAY[{want}]"));
        explain(&scene.client, &sql).await;
    }
    scene.run("DELETE FROM taskq.jobs").await;
}

/// Fills one actor's cohorts `k00000`, `k00001`, … with ready jobs, by turns.
async fn add(scene: &Scene, actor: &str, jobs: usize, cohorts: usize) {
    scene
        .run(&format!(
            "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload, cohort, fairness_key)
             SELECT taskq.make_id(now(), n), now(), now() + n * interval '1 microsecond', 'pending', 'q', '{actor}',
                 to_jsonb(n), k.key, k.key
             FROM generate_series(1, {jobs}) n
             CROSS JOIN LATERAL (SELECT 'k' || lpad((n % {cohorts})::text, 5, '0') AS key) k"
        ))
        .await;
}

/// Fills one actor's cohorts up to so many jobs, and counts a claim.
async fn cost_of(scene: &Scene, worker: Uuid, jobs: usize, cohorts: usize) -> i64 {
    scene.run("TRUNCATE taskq.jobs").await;
    add(scene, "actor0", jobs, cohorts).await;
    let buffers = cost(scene, worker).await;
    assert!(buffers <= BUFFERS, "{buffers} buffers with {jobs} jobs of {cohorts} cohorts");
    buffers
}

#[track_caller]
fn assert_alike(few: i64, many: i64, what: &str) {
    assert!(many * 100 <= few * 130, "{what}: {few} buffers grew to {many}");
}

#[tokio::test]
async fn ten_thousand_cohorts_cost_what_ten_cost() {
    let (scene, worker) = with_early_plans(1).await;
    let few = cost_of(&scene, worker, 30_000, 10).await;
    let many = cost_of(&scene, worker, 30_000, 10_000).await;
    assert_alike(few, many, "cohorts");
}

#[tokio::test]
async fn the_oracle_sees_a_walk_round_the_whole_ring() {
    let (scene, worker) = with_early_plans(1).await;
    Mutant::of("claim_turns")
        .replace("WHERE r.nth < want AND", "WHERE")
        .replace("WHERE r.nth > 0", "WHERE r.nth BETWEEN 1 AND want")
        .apply(&scene)
        .await;
    warm(&scene, worker).await;
    add(&scene, "actor0", 30_000, 10_000).await;
    let buffers = cost(&scene, worker).await;
    assert!(buffers > BUFFERS, "{buffers} buffers for a walk past 10,000 cohorts");
}

#[tokio::test]
async fn the_depth_of_a_cohort_does_not_count() {
    let (scene, worker) = with_early_plans(1).await;
    for cohorts in [1, 3, 100] {
        let shallow = cost_of(&scene, worker, 1_000, cohorts).await;
        let deep = cost_of(&scene, worker, 30_000, cohorts).await;
        assert_alike(shallow, deep, "depth");
    }
}

#[tokio::test]
async fn the_oracle_sees_a_lane_that_is_sorted() {
    let (scene, worker) = with_early_plans(1).await;
    Mutant::of("claim_turns")
        .replace(
            "ORDER BY j.priority DESC, j.scheduled_at, j.id\n",
            "ORDER BY j.priority + 0 DESC, j.scheduled_at, j.id\n",
        )
        .apply(&scene)
        .await;
    warm(&scene, worker).await;
    add(&scene, "actor0", 30_000, 3).await;
    let buffers = cost(&scene, worker).await;
    assert!(buffers > BUFFERS, "{buffers} buffers for sorting 30,000 jobs");
}

/// Cohorts of actors between, before and behind those that are served.
async fn add_unserved(scene: &Scene) {
    for actor in ["a", "actor00", "actor1x", "z"] {
        add(scene, actor, 10_000, 5_000).await;
    }
}

#[tokio::test]
async fn cohorts_of_actors_that_are_not_served_cost_nothing() {
    let (scene, worker) = with_early_plans(8).await;
    let served = async || {
        for n in 0..8 {
            add(&scene, &format!("actor{n}"), 300, 5).await;
        }
    };
    served().await;
    let alone = cost(&scene, worker).await;
    scene.run("TRUNCATE taskq.jobs").await;
    served().await;
    add_unserved(&scene).await;
    let beside = cost(&scene, worker).await;
    assert_alike(alone, beside, "cohorts of others");
}

#[tokio::test]
async fn the_oracle_sees_the_jobs_of_others_being_read() {
    let (scene, worker) = with_early_plans(8).await;
    Mutant::of("claim_turns")
        .replace("j.actor = stops[s.stop]", "j.actor >= stops[s.stop] AND j.actor || '' = stops[s.stop]")
        .apply(&scene)
        .await;
    warm(&scene, worker).await;
    for n in 0..8 {
        add(&scene, &format!("actor{n}"), 300, 5).await;
    }
    add_unserved(&scene).await;
    let buffers = cost(&scene, worker).await;
    assert!(buffers > BUFFERS, "{buffers} buffers for reading 40,000 jobs of others");
}

#[tokio::test]
async fn forty_eight_actors_cost_less_than_twice_what_eight_cost() {
    let mut costs = Vec::new();
    for actors in [8, 48] {
        let (scene, worker) = with_early_plans(actors).await;
        for n in 0..actors {
            add(&scene, &format!("actor{n}"), 30_000 / actors, 20).await;
        }
        costs.push(cost(&scene, worker).await);
    }
    assert!(costs[1] < costs[0] * 2, "{costs:?}");
}

#[tokio::test]
async fn settings_of_the_session_and_statistics_change_nothing() {
    let (scene, worker) = with_early_plans(1).await;
    scene.run("ANALYZE taskq.jobs").await;
    add(&scene, "actor0", 30_000, 10_000).await;
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
        // The first claim plans anew, and the catalog that this reads counts.
        let planning = cost(&scene, worker).await;
        let buffers = cost(&scene, worker).await.min(planning);
        assert!(buffers <= BUFFERS, "{buffers} buffers under {settings}");
    }
}

#[tokio::test]
async fn the_oracle_sees_the_pins_of_the_turns_go() {
    let (scene, worker) = with_early_plans(1).await;
    Mutant::of("claim_turns").without_pins().apply(&scene).await;
    // Whatever the session may have to forget and plan anew.
    scene.run("SET random_page_cost = 1000; SET cpu_tuple_cost = 0").await;
    warm(&scene, worker).await;
    add(&scene, "actor0", 30_000, 10_000).await;
    let buffers = cost(&scene, worker).await;
    assert!(buffers > BUFFERS, "the pins do nothing: {buffers} buffers without them");
}

/// A row re-found by its key and a status can be served by an index on that status.
#[tokio::test]
async fn the_oracle_sees_heads_re_found_by_key_and_status() {
    let mut buffers = 0;
    // A session may have to forget its plans, when many others change their catalogs, and then makes better ones.
    for _ in 0..3 {
        let (scene, worker) = with_early_plans(1).await;
        Mutant::of("claim_turns")
            .replace(
                "j.ctid = h.tid AND j.id IS NOT DISTINCT FROM h.id AND j.status::text = 'pending'",
                "j.id = h.id AND j.status = 'pending'",
            )
            .apply(&scene)
            .await;
        warm(&scene, worker).await;
        // Deep enough that reading the whole index shows.
        add(&scene, "actor0", 100_000, 10_000).await;
        buffers = cost(&scene, worker).await;
        if buffers > BUFFERS {
            return;
        }
    }
    panic!("heads re-found by a status are not seen: {buffers} buffers");
}

/// The public claim finds a start of its own.
#[tokio::test]
async fn a_start_by_chance_is_bounded() {
    let (scene, worker) = with_early_plans(1).await;
    let public = format!("SELECT * FROM taskq.claim(ARRAY['q'], 50, '{worker}', '1 hour')");
    let mut costs = Vec::new();
    for cohorts in [10, 10_000] {
        scene.run("TRUNCATE taskq.jobs").await;
        add(&scene, "actor0", 30_000, cohorts).await;
        let mut least = i64::MAX;
        for _ in 0..5 {
            let (buffers, rows) = explain(&scene.client, &public).await;
            assert_eq!(rows, 50);
            least = least.min(buffers);
        }
        assert!(least <= BUFFERS, "{least} buffers with {cohorts} cohorts");
        costs.push(least);
    }
    assert_alike(costs[0], costs[1], "a start by chance");
    let (buffers, _) = explain(&scene.client, "SELECT * FROM taskq.start_turn('q', ARRAY['actor0'])").await;
    assert!(buffers <= 64 * 5, "{buffers} buffers for a start among 10,000 cohorts");
}

/// What a claim in strict order does where lanes once took turns.
#[tokio::test]
async fn merging_reads_what_it_merges_and_one_entry_an_actor() {
    let scene = Scene::new().await;
    scene.run("ALTER TABLE taskq.jobs SET (autovacuum_enabled = off)").await;
    let merge = "SELECT taskq.merge_cohorts('q', ARRAY['actor0', 'actor1', 'actor2'], 100)";
    for _ in 0..8 {
        explain(&scene.client, merge).await;
    }
    scene
        .run(
            "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload)
             SELECT taskq.make_id(now(), n), now(), now(), 'pending', 'q', 'actor' || n % 3, '1'
             FROM generate_series(1, 30000) n",
        )
        .await;
    let nothing = async || {
        let mut least = i64::MAX;
        for _ in 0..3 {
            least = least.min(explain(&scene.client, merge).await.0);
        }
        least
    };
    let buffers = nothing().await;
    assert!(buffers <= 30, "{buffers} buffers for nothing to merge beside 30,000 jobs");
    add(&scene, "actor1", 1_000, 1_000).await;
    let (buffers, _) = explain(&scene.client, merge).await;
    assert!(buffers <= 100 * 25, "{buffers} buffers to merge 100 of 1,000 jobs");
    let left: i64 = scene.value("SELECT count(*) FROM taskq.jobs WHERE cohort > ''").await;
    assert_eq!(left, 900);

    Mutant::of("merge_cohorts").replace("j.cohort > ''", "j.cohort <> ''").apply(&scene).await;
    scene.run("UPDATE taskq.jobs SET cohort = '' WHERE cohort > ''").await;
    let buffers = nothing().await;
    assert!(buffers > 30, "jobs without a cohort are read: {buffers} buffers");
}
