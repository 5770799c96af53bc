//! A success that is recorded in a transaction which stays open for a while.

use tokio_postgres::Client;
use uuid::Uuid;

use super::mutant::Mutant;
use super::scene::{Attempt, Scene, claim, raised};

async fn complete(client: &Client, worker: Uuid, attempt: Attempt) -> Result<String, tokio_postgres::Error> {
    let row = client
        .query_one("SELECT reason FROM taskq.complete($1, $2, $3)", &[&worker, &attempt.id, &attempt.epoch])
        .await?;
    Ok(row.get(0))
}

async fn running(scene: &Scene) -> (Uuid, Attempt) {
    let worker = scene.worker(1).await;
    scene.enqueue(1, 1).await;
    (worker, claim(&scene.client, worker, 1).await.unwrap()[0])
}

async fn status(scene: &Scene, attempt: Attempt) -> String {
    scene.value(&format!("SELECT status::text FROM taskq.jobs WHERE id = '{}'", attempt.id)).await
}

/// Lets a leader take what lost workers hold; how many jobs it took.
async fn rescue(scene: &Scene) -> i64 {
    let leader = scene.worker(1).await;
    scene.run(&format!("SELECT taskq.heartbeat('{leader}', '1 hour', '[]', '1 hour')")).await;
    let epoch: i64 = scene.value("SELECT epoch FROM taskq.leader").await;
    scene.run(&format!("SELECT taskq.mark_lost('{leader}', {epoch}, 100)")).await;
    let taken = scene.value(&format!("SELECT count(id) FROM taskq.reclaim('{leader}', {epoch}, 100)")).await;
    scene.run(&format!("SELECT taskq.release_worker('{leader}')")).await;
    taken
}

#[tokio::test]
async fn a_job_that_an_open_transaction_has_completed_is_not_taken_when_the_lease_ends() {
    let scene = Scene::new().await;
    let (worker, attempt) = running(&scene).await;
    let own = scene.session().await;
    own.batch_execute("BEGIN").await.unwrap();
    assert_eq!(complete(&own, worker, attempt).await.unwrap(), "applied");
    scene.expire(worker).await;
    assert_eq!(rescue(&scene).await, 0, "its row is locked");
    assert_eq!(status(&scene, attempt).await, "running");
    own.batch_execute("COMMIT").await.unwrap();
    assert_eq!(rescue(&scene).await, 0);
    assert_eq!(status(&scene, attempt).await, "succeeded");
}

#[tokio::test]
async fn a_job_whose_completion_is_rolled_back_runs_on_and_is_taken_when_the_lease_ends() {
    let scene = Scene::new().await;
    let (worker, attempt) = running(&scene).await;
    let own = scene.session().await;
    own.batch_execute("BEGIN").await.unwrap();
    assert_eq!(complete(&own, worker, attempt).await.unwrap(), "applied");
    own.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(status(&scene, attempt).await, "running");
    scene.expire(worker).await;
    assert_eq!(rescue(&scene).await, 1);
    assert_eq!(complete(&own, worker, attempt).await.unwrap(), "stale");
    assert_eq!(status(&scene, attempt).await, "scheduled");
}

#[tokio::test]
async fn every_isolation_level_carries_a_completion() {
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let scene = Scene::new().await;
        let (worker, attempt) = running(&scene).await;
        scene.run(&format!("BEGIN ISOLATION LEVEL {level}")).await;
        assert_eq!(complete(&scene.client, worker, attempt).await.unwrap(), "applied", "{level}");
        assert_eq!(complete(&scene.client, worker, attempt).await.unwrap(), "repeated", "{level}");
        scene.run("COMMIT").await;
        assert_eq!(status(&scene, attempt).await, "succeeded", "{level}");
    }
}

#[tokio::test]
async fn above_read_committed_a_job_that_has_changed_meanwhile_is_a_conflict() {
    let scene = Scene::new().await;
    let (worker, attempt) = running(&scene).await;
    let own = scene.session().await;
    own.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM taskq.jobs")
        .await
        .unwrap();
    scene.run(&format!("SELECT taskq.cancel(ARRAY['{}'::uuid])", attempt.id)).await;
    let conflict = complete(&own, worker, attempt).await.unwrap_err();
    assert_eq!(raised(&conflict).code().code(), "40001");
}

/// In the interleaving that decides: the lease ends, and the job is taken, while the completion waits for the row.
#[tokio::test]
async fn a_completion_looks_at_the_fence_after_it_has_the_lock() {
    let attempts = async |mutant: Option<Mutant>| {
        let scene = Scene::new().await;
        if let Some(mutant) = mutant {
            mutant.apply(&scene).await;
        }
        let (worker, attempt) = running(&scene).await;
        scene.expire(worker).await;
        assert_eq!(rescue(&scene).await, 1);
        let reason = complete(&scene.client, worker, attempt).await.unwrap();
        let other = scene.worker(1).await;
        scene.run("UPDATE taskq.jobs SET status = 'pending' WHERE status = 'scheduled'").await;
        let second = claim(&scene.client, other, 1).await.unwrap();
        let stale =
            complete(&scene.client, other, Attempt { epoch: attempt.epoch, ..attempt }).await.unwrap();
        (reason, second.len(), stale)
    };
    let (stale, again) = ("stale".to_owned(), "stale".to_owned());
    assert_eq!(attempts(None).await, (stale, 1, again));
    let unfenced = Mutant::of("settle_each").replace("i.held_epoch = i.epoch AND ", "");
    assert_eq!(attempts(Some(unfenced)).await.2, "applied", "the test sees a completion without its epoch");
}
