//! What locks and then looks again refuses a snapshot that is older than its locks.

use super::scene::{Scene, raised};

#[tokio::test]
async fn only_read_committed_carries_the_engine() {
    let scene = Scene::new().await;
    let worker = scene.worker(1).await;
    let calls = [
        format!("SELECT * FROM taskq.claim(ARRAY['q'], 1, '{worker}', '30 s')"),
        format!("SELECT * FROM taskq.claim_slots('{worker}', ARRAY['q'], ARRAY[1], '30 s', 2)"),
        format!("SELECT * FROM taskq.settle('{worker}', '[]')"),
        format!("SELECT * FROM taskq.heartbeat('{worker}', '30 s')"),
        format!("SELECT * FROM taskq.promote('{worker}', 1, 1)"),
        format!("SELECT * FROM taskq.release_worker('{worker}')"),
    ];
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        for call in &calls {
            let error = scene
                .client
                .batch_execute(&format!("BEGIN ISOLATION LEVEL {level}; {call}"))
                .await
                .expect_err(&format!("accepted at {level}: {call}"));
            assert_eq!(raised(&error).code().code(), "TQ004", "{call}");
            assert!(raised(&error).message().contains(level), "{}", raised(&error).message());
            scene.run("ROLLBACK").await;
        }
        scene
            .run(&format!(r#"BEGIN ISOLATION LEVEL {level}; SELECT * FROM taskq.enqueue('{{"actor": "a", "payload": 1}}'); COMMIT"#))
            .await;
    }
    assert_eq!(scene.value::<i64>("SELECT count(*) FROM taskq.jobs").await, 2);
}

#[tokio::test]
async fn a_job_belongs_to_the_transaction_that_enqueued_it() {
    let scene = Scene::new().await;
    let worker = scene.worker(1).await;
    let other = scene.session().await;
    scene.run("BEGIN").await;
    scene.enqueue(1, 1).await;
    assert!(super::scene::claim(&other, worker, 1).await.unwrap().is_empty(), "not before the commit");
    scene.run("ROLLBACK").await;
    assert!(super::scene::claim(&other, worker, 1).await.unwrap().is_empty(), "never after a rollback");
    scene.run("BEGIN").await;
    scene.enqueue(1, 1).await;
    scene.run("COMMIT").await;
    assert_eq!(super::scene::claim(&other, worker, 1).await.unwrap().len(), 1);
}
