//! What a plain job's life writes.

use std::collections::BTreeMap;

use serde_json::json;

use super::scene::{Scene, claim, settle};

/// Counts the entries that were put into the indexes of `jobs` between two points of the log, by index. An entry for which a
/// page was divided stands in the record of that.
pub(crate) async fn entries(scene: &Scene, from: &str, to: &str) -> BTreeMap<String, i64> {
    let query = format!(
        "SELECT c.relname::text, count(*)
         FROM pg_get_wal_records_info('{from}', '{to}') w
         JOIN pg_class c ON w.block_ref LIKE format('%%rel %s/%s/%s %%',
             (SELECT CASE dattablespace WHEN 0 THEN 1663 ELSE dattablespace END FROM pg_database WHERE datname = current_database()),
             (SELECT oid FROM pg_database WHERE datname = current_database()), pg_relation_filenode(c.oid))
         WHERE c.relkind = 'i' AND w.resource_manager = 'Btree' AND w.record_type IN ('INSERT_LEAF', 'INSERT_POST', 'SPLIT_L', 'SPLIT_R')
         GROUP BY 1"
    );
    let rows = scene.client.query(query.as_str(), &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

pub(crate) async fn position(scene: &Scene) -> String {
    scene.value("SELECT pg_current_wal_flush_lsn()::text").await
}

fn counts(entries: &BTreeMap<String, i64>) -> Vec<(&str, i64)> {
    entries.iter().map(|(index, count)| (index.as_str(), *count)).collect()
}

#[tokio::test]
async fn a_plain_job_writes_six_index_entries_no_attempt_and_no_event() {
    let scene = Scene::new().await;
    scene.run("CREATE EXTENSION pg_walinspect").await;
    // Keeps what is read below from being removed, however much others write meanwhile. It goes with the session.
    let slot = "SELECT pg_create_physical_replication_slot('life_' || pg_backend_pid(), true, true)";
    scene.run(slot).await;
    let worker = scene.worker(1).await;
    // Once through first, so that every index has its root page.
    for _ in 0..2 {
        let start = position(&scene).await;
        scene.enqueue(1, 1).await;
        let enqueued = position(&scene).await;
        let attempts = claim(&scene.client, worker, 1).await.unwrap();
        let claimed = position(&scene).await;
        settle(&scene.client, worker, &attempts, &json!({"outcome": "succeeded", "result": {"ok": true}}))
            .await;
        let settled = position(&scene).await;
        if attempts[0].id == scene.value::<uuid::Uuid>("SELECT max(id::text)::uuid FROM taskq.jobs").await {
            let insert = entries(&scene, &start, &enqueued).await;
            let claim = entries(&scene, &enqueued, &claimed).await;
            let settle = entries(&scene, &claimed, &settled).await;
            assert_eq!(counts(&insert), [("jobs_pkey", 1), ("jobs_ready_idx", 1)]);
            assert_eq!(counts(&claim), [("jobs_pkey", 1), ("jobs_running_idx", 1)]);
            assert_eq!(counts(&settle), [("jobs_finished_idx", 1), ("jobs_pkey", 1)]);
        }
    }
    assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.jobs WHERE status = 'succeeded'").await, 2);
    assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.job_attempts").await, 0);
    assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.job_events").await, 0);
}

#[tokio::test]
async fn every_way_to_enqueue_writes_two_index_entries_a_job() {
    let scene = Scene::new().await;
    scene.run("CREATE EXTENSION pg_walinspect").await;
    let document = r#"{"queue": "q", "actor": "a", "payload": 1}"#;
    let many = |jobs: i64| {
        format!(
            "SELECT count(*) FROM taskq.enqueue_many((SELECT jsonb_agg('{document}'::jsonb) FROM generate_series(1, {jobs})))"
        )
    };
    let calls = [
        ("SELECT taskq.enqueue_plain(taskq.make_id(now(), 1), 'q', 'a', '1', 1, 0::int2, 20::int2, true)".to_owned(), 1),
        (format!("SELECT * FROM taskq.enqueue('{document}')"), 1),
        (many(3), 3),
        (many(150), 150),
        (
            "BEGIN;
             INSERT INTO pg_temp.taskq_staged (nth, id, queue, actor, payload, payload_version, priority, max_attempts)
             SELECT n, taskq.make_id(now(), n), 'q', 'a', '1', 1, 0, 20 FROM generate_series(1, 150) n;
             SELECT * FROM taskq.enqueue_staged(150); COMMIT"
                .to_owned(),
            150,
        ),
    ];
    // Once first, so that every index has its root page.
    scene.run(&calls[0].0).await;
    scene.run("SELECT taskq.prepare_staging()").await;
    for (call, jobs) in calls {
        let start = position(&scene).await;
        scene.run(&call).await;
        let written = entries(&scene, &start, &position(&scene).await).await;
        assert_eq!(counts(&written), [("jobs_pkey", jobs), ("jobs_ready_idx", jobs)], "{call}");
    }
}

#[tokio::test]
async fn looking_at_an_empty_queue_writes_nothing() {
    let scene = Scene::new().await;
    let worker = scene.worker(3).await;
    scene
        .run("SELECT count(*) FROM taskq.heartbeat((SELECT id FROM taskq.workers), '1 hour', NULL, '1 hour')")
        .await;
    let idle = format!(
        "SELECT pg_current_xact_id_if_assigned() IS NULL FROM (
             SELECT count(*) FROM taskq.claim(ARRAY['q'], 10, '{worker}', '1 hour')
             UNION ALL SELECT count(*) FROM taskq.promote('{worker}', 1, 100)
             UNION ALL SELECT count(*) FROM taskq.settle('{worker}', '[]')
         ) AS calls"
    );
    let rows = scene.client.query(idle.as_str(), &[]).await.unwrap();
    assert!(rows.iter().all(|row| row.get::<_, bool>(0)), "no transaction id was assigned");
}

#[tokio::test]
async fn the_event_level_says_what_is_told() {
    let scene = Scene::new().await;
    let worker = scene.worker(1).await;
    for (level, kinds) in [
        ("off", vec![]),
        ("notable", vec!["retried"]),
        ("ends", vec!["retried", "succeeded"]),
        ("all", vec!["claimed", "claimed", "enqueued", "enqueued", "retried", "succeeded"]),
    ] {
        scene
            .run(&format!(
                "TRUNCATE taskq.job_events; INSERT INTO taskq.settings VALUES ('event_level', '\"{level}\"')
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value"
            ))
            .await;
        scene.enqueue(2, 1).await;
        let attempts = claim(&scene.client, worker, 2).await.unwrap();
        settle(&scene.client, worker, &attempts[..1], &json!({"outcome": "succeeded"})).await;
        settle(&scene.client, worker, &attempts[1..], &json!({"outcome": "failed"})).await;
        let told: Vec<String> =
            scene.value("SELECT coalesce(array_agg(kind ORDER BY kind), '{}') FROM taskq.job_events").await;
        assert_eq!(told, kinds, "{level}");
    }
}

#[tokio::test]
async fn a_hook_of_another_server_goes_on_with_now() {
    let scene = Scene::new().await;
    scene.run("SELECT taskq.set_setting('event_level', '\"ends\"')").await;
    let ahead = "SELECT xid::bigint - pg_snapshot_xmin(pg_current_snapshot())::text::bigint
        FROM taskq.hold_hook('audit', gen_random_uuid(), '1 day')";
    let new: i64 = scene.value(ahead).await;
    // As a dump of a server that has seen more transactions leaves it.
    let restored = "UPDATE taskq.hooks
        SET xid = (pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 10000000)::text::xid8, holder = NULL";
    scene.run(restored).await;
    let old: i64 = scene.value(ahead).await;
    // Transactions of other tests pass meanwhile.
    assert!((0..5_000_000).contains(&new) && (0..5_000_000).contains(&old), "{new} and {old}");
}

#[tokio::test]
async fn a_hook_that_is_asked_for_in_vain_is_not_written() {
    let scene = Scene::new().await;
    scene.run("SELECT taskq.set_setting('event_level', '\"ends\"'); SELECT taskq.hold_hook('audit', gen_random_uuid(), '1 day')").await;
    let idle = "SELECT pg_current_xact_id_if_assigned() IS NULL FROM (
        SELECT count(*) AS held FROM taskq.hold_hook('audit', gen_random_uuid(), '1 day')) c WHERE c.held = 0";
    assert!(scene.value::<bool>(idle).await);
}
