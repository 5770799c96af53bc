//! What others do between two steps of one claim.

use std::collections::HashSet;

use super::mutant::Mutant;
use super::scene::{Attempt, Scene, backend_pid, claim, until_blocked_by};

/// Claims `want` jobs for a worker of so many actors, and does something while the claim has stopped: where its function was
/// made to wait for a lock that is ours.
async fn interrupted(scene: &Scene, actors: usize, want: i32, meanwhile: &str) -> Vec<Attempt> {
    let worker = scene.worker(actors).await;
    let (gate, claimer) = (scene.session().await, scene.session().await);
    gate.batch_execute("SELECT pg_advisory_lock(7)").await.unwrap();
    let keeper = backend_pid(&gate).await;
    let open = async {
        until_blocked_by(&scene.client, keeper).await;
        scene.run(meanwhile).await;
        gate.batch_execute("SELECT pg_advisory_unlock(7)").await.unwrap();
    };
    let (claimed, ()) = tokio::join!(claim(&claimer, worker, want), open);
    claimed.unwrap()
}

/// Another claims these jobs.
fn taken(payloads: &str) -> String {
    format!(
        "UPDATE taskq.jobs SET status = 'running', attempt = 1, claim_epoch = 1, locked_by_worker = gen_random_uuid(),
             started_at = now() WHERE (payload)::int IN ({payloads})"
    )
}

/// Jobs 1 to 20 of two lanes by turns, of which a claim wants ten and another takes the even ones among the best ten.
async fn taken_while_they_are_locked(broken: bool) -> usize {
    let scene = Scene::new().await;
    scene.enqueue(20, 2).await;
    let stop = "j.ctid = ANY (heads) AND (SELECT pg_advisory_lock_shared(7)) IS NOT NULL AND";
    let mutant = Mutant::of("claim_group").replace("j.ctid = ANY (heads) AND", stop);
    let mutant =
        if broken { mutant.replace("IF complete IS NOT TRUE THEN", "IF false THEN") } else { mutant };
    mutant.apply(&scene).await;
    let claimed = interrupted(&scene, 2, 10, &taken("2, 4, 6, 8, 10")).await;
    let unique: HashSet<_> = claimed.iter().map(|attempt| attempt.id).collect();
    assert_eq!(unique.len(), claimed.len());
    assert!(claimed.iter().all(|attempt| attempt.epoch == 1), "a job that another runs: {claimed:?}");
    claimed.len()
}

#[tokio::test]
async fn a_job_that_another_takes_while_it_is_being_locked_is_replaced() {
    assert_eq!(taken_while_they_are_locked(false).await, 10);
    assert_eq!(taken_while_they_are_locked(true).await, 5, "nobody notices that it is not");
}

/// Of a claim of ten, one lane has more among the best than were read at first; while it is read again, another takes most
/// of what is known of the other lanes.
async fn taken_while_a_lane_is_read_again(broken: bool) -> usize {
    let scene = Scene::new().await;
    // Four lanes, five rows of each at first: the best ten known then are 1 to 5 and 7 to 11.
    scene
        .run(
            "INSERT INTO taskq.jobs (id, created_at, scheduled_at, status, queue, actor, payload)
             SELECT taskq.make_id(now(), n), now(), now() - interval '1 hour' + n * interval '1 s', 'pending', 'q',
                 'actor' || CASE WHEN n <= 6 THEN 0 ELSE 1 + n % 3 END, to_jsonb(n)
             FROM generate_series(1, 60) n",
        )
        .await;
    let mutant = Mutant::of("claim_group").replace(
        "depth := least(depth * 4, want);",
        "depth := least(depth * 4, want); PERFORM pg_advisory_lock_shared(7);",
    );
    let mutant = if broken { mutant.replace("NOT lost", "true") } else { mutant };
    mutant.apply(&scene).await;
    let claimed = interrupted(&scene, 4, 10, &taken("7, 8, 9, 10")).await;
    claimed.len()
}

#[tokio::test]
async fn a_job_that_another_takes_while_another_lane_is_read_again_is_replaced() {
    assert_eq!(taken_while_a_lane_is_read_again(false).await, 10);
    assert_eq!(taken_while_a_lane_is_read_again(true).await, 7, "nobody notices that it is not");
}
