//! Rings with several dispatchers, jobs that are too late, starts by chance, and changes of mode.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tokio::sync::Barrier;
use tokio_postgres::Client;
use uuid::Uuid;

use super::mutant::Mutant;
use super::scene::{Scene, raised};

/// A claimed job: its cohort and its payload.
type Taken = (String, i32);

/// A queue `q` in `round_robin` mode and nothing in it.
async fn scene() -> Scene {
    let scene = Scene::new().await;
    scene.run("SELECT taskq.set_queue('q', 'round_robin')").await;
    scene
}

/// Adds ready jobs of `actor0` with the payloads 1, 2, …, by turns for so many cohorts `k00000`, ….
async fn add(scene: &Scene, jobs: usize, cohorts: usize) {
    add_with(scene, jobs, cohorts, "NULL").await;
}

async fn add_with(scene: &Scene, jobs: usize, cohorts: usize, deadline: &str) {
    scene
        .run(&format!(
            "INSERT INTO taskq.jobs (id, created_at, scheduled_at, schedule_to_close, status, queue, actor, payload, cohort,
                 fairness_key)
             SELECT taskq.make_id(now(), n), now(), now() - interval '1 h', {deadline}, 'pending', 'q', 'actor0',
                 to_jsonb(n), k.key, k.key
             FROM generate_series(1, {jobs}) n
             CROSS JOIN LATERAL (SELECT 'k' || lpad((n % {cohorts})::text, 5, '0') AS key) k"
        ))
        .await;
}

/// Claims behind the lane of `actor0` and a cohort.
async fn try_behind(
    client: &Client,
    worker: Uuid,
    cohort: &str,
    slots: i32,
) -> Result<Vec<Taken>, tokio_postgres::Error> {
    let query = "SELECT cohort, payload::int FROM taskq.claim_slots(
        $1, ARRAY['q'], ARRAY[$2::int], '1 hour', 2, ARRAY['actor0'], ARRAY[$3::text])";
    let rows = client.query(query, &[&worker, &slots, &cohort]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

async fn behind(client: &Client, worker: Uuid, cohort: &str, slots: i32) -> Vec<Taken> {
    try_behind(client, worker, cohort, slots).await.unwrap()
}

#[tokio::test]
async fn dispatchers_with_one_turn_get_full_and_disjoint_claims_behind_held_locks() {
    for (jobs, cohorts) in [(2_000, 2_000), (2_000, 60), (2_000, 10), (2_000, 1)] {
        let scene = scene().await;
        add(&scene, jobs, cohorts).await;
        let mut seen = HashSet::new();
        let mut held = Vec::new();
        for _ in 0..8 {
            let worker = scene.worker(1).await;
            let session = scene.session().await;
            // One that waited behind them would wait for ever.
            session.batch_execute("SET lock_timeout = '10 s'; BEGIN").await.unwrap();
            let taken = behind(&session, worker, "k00000", 50).await;
            assert_eq!(taken.len(), 50, "behind {} others among {cohorts} cohorts", held.len());
            assert!(taken.iter().all(|(_, payload)| seen.insert(*payload)), "no job twice");
            held.push(session);
        }
    }
}

#[tokio::test]
async fn dispatchers_that_start_together_share_a_ring_without_a_gap() {
    const DISPATCHERS: usize = 8;
    const ROUNDS: usize = 5;
    let scene = scene().await;
    add(&scene, DISPATCHERS * ROUNDS * 20, 30).await;
    let barrier = Arc::new(Barrier::new(DISPATCHERS));
    let mut running = Vec::new();
    for _ in 0..DISPATCHERS {
        let (worker, session, barrier) = (scene.worker(1).await, scene.session().await, Arc::clone(&barrier));
        running.push(tokio::spawn(async move {
            let (mut got, mut turn) = (Vec::new(), "k00000".to_owned());
            for _ in 0..ROUNDS {
                barrier.wait().await;
                let taken = behind(&session, worker, &turn, 20).await;
                assert_eq!(taken.len(), 20, "full while enough is ready");
                turn.clone_from(&taken[19].0);
                got.extend(taken);
            }
            got
        }));
    }
    let mut seen = HashSet::new();
    for task in running {
        assert!(task.await.unwrap().into_iter().all(|(_, payload)| seen.insert(payload)), "no job twice");
    }
    assert_eq!(seen.len(), DISPATCHERS * ROUNDS * 20);
}

#[tokio::test]
async fn a_lane_whose_first_job_is_locked_gives_its_second() {
    let scene = scene().await;
    let worker = scene.worker(1).await;
    add(&scene, 6, 3).await;
    let holder = scene.session().await;
    holder.batch_execute("BEGIN; SELECT FROM taskq.jobs WHERE payload = '1' FOR UPDATE").await.unwrap();
    let kept = behind(&scene.client, worker, "k00000", 3).await;
    let expected = [("k00001", 4), ("k00002", 2), ("k00000", 3)];
    assert_eq!(kept, expected.map(|(cohort, payload)| (cohort.to_owned(), payload)), "in its own turn");
    holder.batch_execute("SELECT FROM taskq.jobs WHERE payload = '5' FOR UPDATE").await.unwrap();
    let rest = behind(&scene.client, worker, "k00000", 3).await;
    assert_eq!(rest, [("k00000".to_owned(), 6)], "lanes that are locked whole are passed over");
}

#[tokio::test]
async fn a_claim_by_turns_under_way_keeps_its_worker_from_being_declared_lost() {
    let scene = scene().await;
    add(&scene, 10, 2).await;
    for (breaks, lost) in [(false, 0_i64), (true, 1)] {
        if breaks {
            Mutant::of("claim_turns").replace(" FOR KEY SHARE", "").apply(&scene).await;
        }
        let (worker, leader) = (scene.worker(1).await, scene.worker(1).await);
        let epoch: i64 = scene
            .client
            .query_one(
                "SELECT epoch FROM taskq.heartbeat($1, '1 hour', NULL, '1 hour') WHERE kind = 'leader'",
                &[&leader],
            )
            .await
            .unwrap()
            .get(0);
        let claimer = scene.session().await;
        claimer.batch_execute("BEGIN").await.unwrap();
        assert_eq!(behind(&claimer, worker, "k00000", 3).await.len(), 3);
        scene.expire(worker).await;
        let marked: i64 = scene
            .client
            .query_one("SELECT swept FROM taskq.mark_lost($1, $2, 100)", &[&leader, &epoch])
            .await
            .unwrap()
            .get(0);
        assert_eq!(marked, lost, "with its row {}", if breaks { "left alone" } else { "held" });
        claimer.batch_execute("COMMIT").await.unwrap();
        let refused = try_behind(&scene.client, worker, "k00000", 1).await.unwrap_err();
        assert_eq!(raised(&refused).code().code(), "TQ001");
        scene.run("SELECT taskq.release_worker(w.id) FROM taskq.workers w").await;
    }
}

#[tokio::test]
async fn a_claim_by_turns_renews_a_lease_that_is_half_over() {
    let scene = scene().await;
    let worker = scene.worker(1).await;
    add(&scene, 2, 2).await;
    let left = "SELECT extract(epoch FROM lease_expires_at - now())::float8 FROM taskq.workers";
    scene.run("UPDATE taskq.workers SET lease_expires_at = now() + interval '40 min'").await;
    behind(&scene.client, worker, "", 1).await;
    assert!(scene.value::<f64>(left).await < 2_400.5);
    scene.run("UPDATE taskq.workers SET lease_expires_at = now() + interval '20 min'").await;
    behind(&scene.client, worker, "", 1).await;
    assert!(scene.value::<f64>(left).await > 3_500.0);
}

#[tokio::test]
async fn every_claimed_job_is_told_once_however_many_rounds_it_takes() {
    let scene = scene().await;
    let worker = scene.worker(1).await;
    scene.run("INSERT INTO taskq.settings (name, value) VALUES ('event_level', '\"all\"')").await;
    add(&scene, 60, 7).await;
    assert_eq!(behind(&scene.client, worker, "", 50).await.len(), 50);
    let told: (i64, i64) = {
        let row = scene
            .client
            .query_one(
                "SELECT count(*), count(DISTINCT job_id) FROM taskq.job_events WHERE kind = 'claimed'",
                &[],
            )
            .await
            .unwrap();
        (row.get(0), row.get(1))
    };
    assert_eq!(told, (50, 50));
}

/// Jobs that have ended because they were too late, and those that are still to be.
async fn late(scene: &Scene) -> (i64, i64) {
    let query = "SELECT count(*) FILTER (WHERE status = 'failed'),
        count(*) FILTER (WHERE status = 'pending' AND schedule_to_close < now()) FROM taskq.jobs";
    let row = scene.client.query_one(query, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

/// Looks until the one job that is not too late has come and all others have ended; returns the most that one look
/// ended.
async fn look_past_the_late(scene: &Scene, worker: Uuid, slots: i32) -> i64 {
    let (mut before, mut most, mut found) = (late(scene).await, 0, 0);
    while before.1 > 0 || found == 0 {
        found += behind(&scene.client, worker, "", slots).await.len();
        let after = late(scene).await;
        assert!(found == 1 || after.0 > before.0, "a look goes forward: {before:?}, {after:?}");
        most = most.max(after.0 - before.0);
        before = after;
    }
    assert_eq!(found, 1);
    most
}

/// Jobs that are too late, and one behind them that is not.
async fn add_late(scene: &Scene, late: usize, cohorts: usize) {
    add_with(scene, late, cohorts, "now() - interval '1 s'").await;
    let job =
        r#"SELECT taskq.enqueue('{"queue": "q", "actor": "actor0", "payload": 0, "fairness_key": "z"}')"#;
    scene.run(job).await;
}

#[tokio::test]
async fn a_mass_of_missed_deadlines_costs_one_claim_a_bounded_amount() {
    for (cohorts, slots) in [(1, 1), (20, 1), (400, 50), (5_000, 300)] {
        let scene = scene().await;
        let worker = scene.worker(1).await;
        add_late(&scene, 5_000, cohorts).await;
        let most = look_past_the_late(&scene, worker, slots).await;
        assert!(most <= 4_000, "one look ended {most} jobs of {cohorts} cohorts");
    }
}

#[tokio::test]
async fn the_bound_of_a_look_past_missed_deadlines_is_noticed_when_it_goes() {
    let scene = scene().await;
    Mutant::of("claim_turns").replace("passes = 8 OR ended >= 1000", "false").apply(&scene).await;
    let worker = scene.worker(1).await;
    add_late(&scene, 5_000, 5_000).await;
    assert!(look_past_the_late(&scene, worker, 300).await > 4_000, "one look goes past them all");
}

#[tokio::test]
async fn every_lane_may_be_the_first_of_a_claim_without_a_turn() {
    let scene = scene().await;
    scene
        .run(
            "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload, cohort)
             SELECT taskq.make_id(now(), k.nth), now(), now(), 'pending', 'q', 'actor0', '1', k.cohort
             FROM (
                 SELECT 'tenant-' || lpad(n::text, 5, '0') FROM generate_series(1, 24) n
                 UNION ALL SELECT unnest(ARRAY['', 'a', ' ', 'tenant-0002', 'tenant-00024x', 'é', '中', U&'\\D7FF', U&'\\E000', '😀'])
             ) u(cohort)
             CROSS JOIN LATERAL (SELECT u.cohort, hashtext(u.cohort) & 1048575) k(cohort, nth)",
        )
        .await;
    let drawn = async || -> BTreeMap<String, i64> {
        // The draws are the same in every run.
        scene.run("SELECT setseed(0.25)").await;
        let query = "SELECT s.cohort, count(*) FROM (
            SELECT (taskq.start_turn('q', ARRAY['actor0'])).from_cohort FROM generate_series(1, 4000)
        ) s(cohort) GROUP BY s.cohort";
        let rows = scene.client.query(query, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    };
    let draws = drawn().await;
    assert_eq!(draws.len(), 34, "{draws:?}");
    let numbered =
        draws.iter().filter(|(cohort, _)| cohort.len() == "tenant-00001".len()).map(|(_, draws)| draws);
    let (least, most) = (numbered.clone().min().unwrap(), numbered.max().unwrap());
    assert!(most / least <= 30, "numbered keys have alike chances: {least} to {most}");

    Mutant::of("start_turn")
        .replace("WHILE low < high AND tosses < 64 LOOP", "WHILE tosses < 1 LOOP")
        .apply(&scene)
        .await;
    assert!(drawn().await.len() < 10, "without its tosses a start is hardly by chance");
}

/// Registers a worker of several queues for actors `actor0` and `actor1`.
async fn worker_of(scene: &Scene, queues: &[&str]) -> Uuid {
    let worker = Uuid::now_v7();
    let register = "SELECT taskq.register_worker($1, $2, ARRAY['actor0', 'actor1'], '1 hour')";
    scene.client.execute(register, &[&worker, &queues]).await.unwrap();
    worker
}

/// How many jobs of each queue the public claim returned.
async fn public(scene: &Scene, worker: Uuid, queues: &[&str], max_jobs: i32) -> BTreeMap<String, i64> {
    let query = "SELECT c.queue, count(*) FROM taskq.claim($1, $2, $3, '1 hour') c GROUP BY c.queue";
    let rows = scene.client.query(query, &[&queues, &max_jobs, &worker]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

async fn fill(scene: &Scene, queue: &str, jobs: usize) {
    let query =
        "SELECT count(*) FROM taskq.enqueue_many((SELECT jsonb_agg(jsonb_build_object('queue', $1::text,
        'actor', 'actor' || n % 2, 'payload', n)) FROM generate_series(1, $2::int) n))";
    scene.client.execute(query, &[&queue, &i32::try_from(jobs).unwrap()]).await.unwrap();
}

#[tokio::test]
async fn the_public_claim_divides_among_queues_of_both_modes() {
    let scene = scene().await;
    scene.run("SELECT taskq.set_queue('r', 'round_robin')").await;
    let all = ["q", "r", "s", "t"];
    let worker = worker_of(&scene, &all).await;
    for queue in all {
        fill(&scene, queue, 100).await;
    }
    let got = public(&scene, worker, &all, 40).await;
    // The jobs of `s` are older than those of `t`.
    let expected = [("q", 10), ("r", 10), ("s", 20)].map(|(queue, jobs)| (queue.to_owned(), jobs));
    assert_eq!(
        got,
        BTreeMap::from(expected),
        "each turning queue has its part, those in strict order theirs together"
    );
    let got = public(&scene, worker, &["q", "q", "s"], 50).await;
    assert_eq!((got["q"], got["s"]), (25, 25), "a queue that is named twice counts once");

    scene.run("SELECT taskq.pause('queue', 's')").await;
    let got = public(&scene, worker, &["q", "s"], 20).await;
    assert_eq!(got, BTreeMap::from([("q".to_owned(), 20)]), "a paused queue has no part");
    scene.run("SELECT taskq.pause('queue', 'q')").await;
    assert!(public(&scene, worker, &["q", "s"], 20).await.is_empty());
    scene.run("SELECT taskq.resume('queue', 'q'); SELECT taskq.resume('queue', 's')").await;
    let rest = public(&scene, worker, &all, 1_000).await.values().sum::<i64>();
    assert_eq!(rest, 400 - 40 - 50 - 20, "what one queue does not use goes to the others");
    assert!(public(&scene, worker, &all, 10).await.is_empty());
}

#[tokio::test]
async fn a_public_claim_of_one_job_serves_every_queue_in_time() {
    let scene = scene().await;
    let all = ["q", "s"];
    let worker = worker_of(&scene, &all).await;
    for queue in all {
        fill(&scene, queue, 50).await;
    }
    // The draws are the same in every run.
    scene.run("SELECT setseed(0.5)").await;
    let mut served = BTreeMap::new();
    for _ in 0..20 {
        for (queue, jobs) in public(&scene, worker, &all, 1).await {
            *served.entry(queue).or_insert(0) += jobs;
        }
    }
    assert!(served.values().sum::<i64>() == 20 && served.values().all(|jobs| *jobs >= 3), "{served:?}");
}

#[tokio::test]
async fn an_enqueue_that_read_the_old_mode_is_found_in_strict_order() {
    let scene = scene().await;
    let worker = scene.worker(1).await;
    let enqueuer = scene.session().await;
    let late = r#"BEGIN; SELECT taskq.enqueue('{"queue": "q", "actor": "actor0", "payload": 7, "fairness_key": "k"}')"#;
    enqueuer.batch_execute(late).await.unwrap();
    let set: i64 = scene.value("SELECT merged FROM taskq.set_queue('q', 'strict_fifo')").await;
    assert_eq!(set, 0, "it is not to be seen yet");
    assert!(behind(&scene.client, worker, "", 5).await.is_empty());
    enqueuer.batch_execute("COMMIT").await.unwrap();
    let query = "SELECT payload::int, fairness_key FROM taskq.claim(ARRAY['q'], 5, $1, '1 hour')";
    let row = scene.client.query_one(query, &[&worker]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, &str>(1)), (7, "k"));
}

#[tokio::test]
async fn a_claim_in_strict_order_merges_a_bounded_number_and_all_in_time() {
    let scene = scene().await;
    let worker = scene.worker(1).await;
    add(&scene, 1_300, 1_300).await;
    scene.run("UPDATE taskq.queues SET mode = 'strict_fifo'").await;
    let query = "SELECT payload::int FROM taskq.claim_slots($1, ARRAY['q'], ARRAY[100], '1 hour')";
    let mut seen = HashSet::new();
    for left in [800_i64, 300, 0, 0] {
        let rows = scene.client.query(query, &[&worker]).await.unwrap();
        assert!(rows.len() == 100 && rows.iter().all(|row| seen.insert(row.get::<_, i32>(0))));
        let cohorts: i64 = scene.value("SELECT count(*) FROM taskq.jobs WHERE cohort > ''").await;
        assert_eq!(cohorts, left);
    }
}

#[tokio::test]
async fn a_mode_is_set_only_to_what_there_is() {
    let scene = Scene::new().await;
    for call in [
        "set_queue('q', 'fair')",
        "set_queue('q', NULL)",
        "set_queue('', 'round_robin')",
        "set_queue(NULL, 'round_robin')",
        "set_queue('q', 'round_robin', 0)",
        "set_queue('q', 'round_robin', 100001)",
    ] {
        let refused = scene.client.batch_execute(&format!("SELECT taskq.{call}")).await.unwrap_err();
        assert_eq!(raised(&refused).code().code(), "TQ002", "{call}");
    }
    assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.queues").await, 0);
    let check = scene
        .client
        .batch_execute("INSERT INTO taskq.queues (queue, mode, updated_at) VALUES ('q', 'fair', now())");
    assert_eq!(raised(&check.await.unwrap_err()).code().code(), "23514");
}
