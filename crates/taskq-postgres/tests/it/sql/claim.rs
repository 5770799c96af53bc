//! The order of a claim, and several dispatchers on the same lanes.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::Barrier;
use uuid::Uuid;

use super::scene::{Scene, claim};

/// The payloads of a claim through the public function, in the order of the answer.
async fn claimed(scene: &Scene, worker: Uuid, queues: &[&str], max_jobs: i32, oversample: i32) -> Vec<i32> {
    let rows = scene
        .client
        .query(
            "SELECT (payload)::int FROM taskq.claim($1, $2, $3, '1 hour', $4)",
            &[&queues, &max_jobs, &worker, &oversample],
        )
        .await
        .unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn the_order_is_one_across_lanes_however_they_are_mixed() {
    let scene = Scene::new().await;
    let worker = scene.worker(5).await;
    // Lane 0 owns the best two hundred, lane 1 a few in between, lane 2 the urgent ones, lane 3 the rest, lane 4 none.
    scene
        .run(
            "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, priority, payload)
             SELECT taskq.make_id(now(), n), now(), '2026-01-01 00:00Z'::timestamptz + n * interval '1 s', 'pending', 'q',
                 'actor' || CASE WHEN n % 17 = 0 THEN 2 WHEN n % 5 = 0 THEN 1 WHEN n <= 200 THEN 0 ELSE 3 END,
                 CASE WHEN n % 17 = 0 THEN n % 3 ELSE 0 END, to_jsonb(n)
             FROM generate_series(1, 400) n",
        )
        .await;
    let expected: Vec<i32> = scene
        .value("SELECT array_agg((payload)::int ORDER BY priority DESC, scheduled_at, id) FROM taskq.jobs")
        .await;
    let mut got = Vec::new();
    for (max_jobs, oversample) in [(1, 1), (7, 1), (50, 1), (100, 2), (13, 3), (1, 100), (1_000, 2)] {
        let batch = claimed(&scene, worker, &["q"], max_jobs, oversample).await;
        assert_eq!(batch.len(), usize::try_from(max_jobs).unwrap().min(expected.len() - got.len()));
        got.extend(batch);
    }
    assert_eq!(got, expected);
    assert!(claimed(&scene, worker, &["q"], 10, 2).await.is_empty());
}

#[tokio::test]
async fn several_queues_share_one_order_in_the_public_claim() {
    let scene = Scene::new().await;
    let worker = Uuid::now_v7();
    scene
        .run(&format!(
            "SELECT taskq.register_worker('{worker}', ARRAY['q', 'r', 's'], ARRAY['a', 'b'], '1 hour')"
        ))
        .await;
    scene
        .run(
            "SELECT * FROM taskq.enqueue_many((SELECT jsonb_agg(jsonb_build_object('actor', chr(97 + n % 2),
                 'queue', chr(113 + n % 3), 'payload', n)) FROM generate_series(1, 30) n))",
        )
        .await;
    assert_eq!(claimed(&scene, worker, &["q", "r", "q"], 4, 2).await.len(), 4);
    let rest = claimed(&scene, worker, &["s", "r", "q"], 100, 2).await;
    assert_eq!(rest.len(), 26);
    assert!(rest.is_sorted(), "one order across the queues: {rest:?}");
}

#[tokio::test]
async fn dispatchers_behind_held_locks_get_full_and_disjoint_claims() {
    let scene = Scene::new().await;
    scene.enqueue(1_000, 4).await;
    let mut seen = HashSet::new();
    let mut held = Vec::new();
    for _ in 0..8 {
        let worker = scene.worker(4).await;
        let session = scene.session().await;
        // One that waited behind them would wait for ever.
        session.batch_execute("SET lock_timeout = '10 s'; BEGIN").await.unwrap();
        let claimed = claim(&session, worker, 50).await.unwrap();
        assert_eq!(claimed.len(), 50, "nobody waits behind the locks of the {} before", held.len());
        assert!(claimed.iter().all(|attempt| seen.insert(attempt.id)), "no job twice");
        held.push(session);
    }
}

#[tokio::test]
async fn dispatchers_that_start_together_share_a_lane_without_a_gap() {
    const DISPATCHERS: usize = 8;
    const ROUNDS: usize = 5;
    let scene = Scene::new().await;
    scene.enqueue(DISPATCHERS * ROUNDS * 20, 1).await;
    let barrier = Arc::new(Barrier::new(DISPATCHERS));
    let mut running = Vec::new();
    for _ in 0..DISPATCHERS {
        let (worker, session, barrier) = (scene.worker(1).await, scene.session().await, Arc::clone(&barrier));
        running.push(tokio::spawn(async move {
            let mut got = Vec::new();
            for _ in 0..ROUNDS {
                barrier.wait().await;
                let claimed = claim(&session, worker, 20).await.unwrap();
                assert_eq!(claimed.len(), 20, "full while enough is ready");
                got.extend(claimed);
            }
            got
        }));
    }
    let mut seen = HashSet::new();
    for task in running {
        assert!(task.await.unwrap().into_iter().all(|attempt| seen.insert(attempt.id)), "no job twice");
    }
    assert_eq!(seen.len(), DISPATCHERS * ROUNDS * 20);
}

#[tokio::test]
async fn a_lane_whose_rest_is_locked_gives_its_share_to_the_others() {
    let scene = Scene::new().await;
    let (first, second) = (scene.worker(2).await, scene.worker(2).await);
    scene.run("SELECT * FROM taskq.enqueue_many((SELECT jsonb_agg(jsonb_build_object('queue', 'q', 'actor', 'actor0',
        'priority', 5, 'payload', n)) FROM generate_series(1, 32) n))").await;
    scene.run("SELECT * FROM taskq.enqueue_many((SELECT jsonb_agg(jsonb_build_object('queue', 'q', 'actor', 'actor1',
        'payload', n)) FROM generate_series(1, 200) n))").await;
    let holder = scene.session().await;
    holder.batch_execute("BEGIN").await.unwrap();
    assert_eq!(claim(&holder, first, 32).await.unwrap().len(), 32, "the better lane is held whole");
    for max_jobs in [1, 10, 32, 50] {
        let claimed = claim(&scene.client, second, max_jobs).await.unwrap();
        assert_eq!(claimed.len(), usize::try_from(max_jobs).unwrap());
    }
}

#[tokio::test]
async fn jobs_that_are_too_late_hide_no_other_lane() {
    let scene = Scene::new().await;
    let worker = scene.worker(2).await;
    scene
        .run(
            "INSERT INTO taskq.jobs (id, created_at, scheduled_at, schedule_to_close, status, queue, actor, payload)
             SELECT taskq.make_id(now(), n), now(), now() - interval '1 h', now() - interval '1 s', 'pending', 'q',
                 'actor0', to_jsonb(n) FROM generate_series(1, 10000) n",
        )
        .await;
    scene
        .run("SELECT * FROM taskq.enqueue('{\"queue\": \"q\", \"actor\": \"actor1\", \"payload\": 1}')")
        .await;
    assert_eq!(claim(&scene.client, worker, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_mass_of_missed_deadlines_costs_one_claim_a_bounded_amount() {
    let scene = Scene::new().await;
    let worker = scene.worker(2).await;
    scene
        .run(
            "INSERT INTO taskq.jobs (id, created_at, scheduled_at, schedule_to_close, status, queue, actor, payload)
             SELECT taskq.make_id(now(), n), now(), now() - interval '1 h', now() - interval '1 s', 'pending', 'q',
                 'actor' || n % 2, to_jsonb(n) FROM generate_series(1, 5000) n",
        )
        .await;
    scene.enqueue(1, 1).await;
    let mut looks = 0;
    while claim(&scene.client, worker, 1).await.unwrap().is_empty() {
        looks += 1;
        let ended: i64 = scene.value("SELECT count(*) FROM taskq.jobs WHERE status = 'failed'").await;
        assert!(ended <= looks * 2_000, "one claim ended {ended} in {looks} looks");
        assert!(looks < 10, "the job behind them is reached");
    }
    assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.jobs WHERE status = 'failed'").await, 5_000);
}
