//! Several dispatchers on one lane.

use std::collections::HashSet;
use std::sync::Arc;

use taskq_testkit::wait_until;
use tokio::sync::Barrier;

use super::ground::{Ground, LANES, Mode, OVERSAMPLE, WANT};
use super::oracle::Meter;
use crate::database::PATIENCE;
use crate::sql::mutant::Mutant;
use crate::sql::scene::{Scene, claim};

const DISPATCHERS: [usize; 3] = [2, 4, 16];

/// What is objected to in a claim of the last dispatcher while all others hold what they claimed.
async fn objections_behind_peers(ground: &Ground, dispatchers: usize) -> Vec<String> {
    let peers = dispatchers - 1;
    let wanted = usize::try_from(WANT).unwrap();
    let mut held = Vec::new();
    for _ in 0..peers {
        let session = ground.scene.session().await;
        session.batch_execute("BEGIN").await.unwrap();
        let claimed = claim(&session, ground.worker, WANT).await.unwrap();
        if claimed.len() != wanted {
            return vec![format!("a peer got {}", claimed.len())];
        }
        held.push(session);
    }
    let mut meter = Meter::open(ground).await;
    // One that waited for the others would wait for ever.
    meter.run("SET lock_timeout = '1 s'; BEGIN").await;
    match meter.try_claim(ground.worker, WANT, OVERSAMPLE).await {
        Ok(work) => ground.objections(&work, peers * wanted),
        Err(error) => vec![error.as_db_error().unwrap().message().to_owned()],
    }
}

async fn claims_behind_locks_are_full_and_bounded(mode: Mode, lanes: usize) {
    let ground = Ground::new(mode, lanes).await;
    ground.add(2_000, &[]).await;
    for dispatchers in DISPATCHERS {
        assert_eq!(objections_behind_peers(&ground, dispatchers).await, [""; 0], "{dispatchers} dispatchers");
    }
}

#[tokio::test]
async fn a_dispatcher_behind_the_locks_of_others_reads_no_more_than_they_hold() {
    for lanes in [1, LANES] {
        claims_behind_locks_are_full_and_bounded(Mode::StrictFifo, lanes).await;
    }
}

#[tokio::test]
async fn a_dispatcher_by_turns_behind_the_locks_of_others_reads_no_more_than_they_hold() {
    for cohorts in [1, 5] {
        claims_behind_locks_are_full_and_bounded(Mode::RoundRobin(cohorts), 1).await;
    }
}

#[tokio::test]
async fn the_oracle_sees_a_claim_that_waits_for_locks() {
    let ground = Ground::new(Mode::StrictFifo, 1).await;
    ground.add(2_000, &[]).await;
    Mutant::of("claim_group").replace(" SKIP LOCKED", "").apply(&ground.scene).await;
    assert_ne!(objections_behind_peers(&ground, 2).await, [""; 0]);
}

/// How many deadlocks the server has found in the database of the scene.
async fn deadlocks(scene: &Scene) -> i64 {
    scene.value("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").await
}

async fn together(mode: Mode, lanes: usize) {
    const ROUNDS: usize = 3;
    let ground = Ground::new(mode, lanes).await;
    let wanted = usize::try_from(WANT).unwrap();
    for dispatchers in DISPATCHERS {
        ground.clear().await;
        // So many that each claim can be full whoever else is under way.
        ground.add(dispatchers * ROUNDS * wanted, &[]).await;
        let barrier = Arc::new(Barrier::new(dispatchers));
        let mut running = Vec::new();
        for _ in 0..dispatchers {
            let (worker, session, barrier) =
                (ground.worker, ground.scene.session().await, Arc::clone(&barrier));
            running.push(tokio::spawn(async move {
                let mut got = Vec::new();
                for _ in 0..ROUNDS {
                    barrier.wait().await;
                    let claimed = claim(&session, worker, WANT).await.unwrap();
                    assert_eq!(claimed.len(), wanted, "full while enough is ready");
                    got.extend(claimed);
                }
                got
            }));
        }
        let mut seen = HashSet::new();
        for task in running {
            assert!(task.await.unwrap().into_iter().all(|attempt| seen.insert(attempt.id)), "no job twice");
        }
        assert_eq!(seen.len(), dispatchers * ROUNDS * wanted, "{dispatchers} dispatchers");
    }
    assert_eq!(deadlocks(&ground.scene).await, 0);
}

#[tokio::test]
async fn dispatchers_that_start_together_get_full_and_disjoint_claims_and_no_deadlock() {
    for lanes in [1, LANES] {
        together(Mode::StrictFifo, lanes).await;
    }
}

#[tokio::test]
async fn dispatchers_by_turns_that_start_together_get_full_and_disjoint_claims_and_no_deadlock() {
    for cohorts in [1, 5] {
        together(Mode::RoundRobin(cohorts), 1).await;
    }
}

/// A deadlock would be seen.
#[tokio::test]
async fn the_count_of_deadlocks_counts() {
    let scene = Scene::new().await;
    scene.enqueue(2, 1).await;
    let lock = |nth: i32| format!("SELECT FROM taskq.jobs WHERE payload = '{nth}' FOR UPDATE");
    let sessions = [scene.session().await, scene.session().await];
    for (session, nth) in sessions.iter().zip([1, 2]) {
        session
            .batch_execute(&format!("SET deadlock_timeout = '10 ms'; BEGIN; {}", lock(nth)))
            .await
            .unwrap();
    }
    let (first, second) = (lock(2), lock(1));
    let (first, second) = tokio::join!(sessions[0].batch_execute(&first), sessions[1].batch_execute(&second));
    assert!(first.is_err() != second.is_err(), "{first:?}, {second:?}");
    drop(sessions);
    wait_until("the deadlock is counted", PATIENCE, async || deadlocks(&scene).await == 1).await;
}
