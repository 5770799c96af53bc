//! Cohorts of a queue whose lanes take turns.

use super::ground::{Ground, LANES, Mode, OVERSAMPLE, ROUND_ROBIN, WANT};
use super::oracle::{Meter, Work};
use crate::sql::mutant::Mutant;

/// Fewer than a claim wants jobs, and more.
const FEW: usize = 10;
const SOME: usize = 100;
const MANY: usize = 10_000;

/// What a claim costs where one actor has so many cohorts with two ready jobs each.
async fn cost(ground: &Ground, cohorts: usize) -> Work {
    let mut meter = Meter::open(ground).await;
    ground.early_plans(&mut meter).await;
    ground.add(2 * cohorts.max(100), &[]).await;
    meter.cost(ground.worker, WANT, OVERSAMPLE).await
}

#[tokio::test]
async fn ten_thousand_tenants_cost_what_a_hundred_cost_and_little_more_than_ten() {
    let mut costs = Vec::new();
    for cohorts in [FEW, SOME] {
        let ground = Ground::new(Mode::RoundRobin(cohorts), 1).await;
        let work = cost(&ground, cohorts).await;
        assert_eq!(ground.objections(&work, 0), [""; 0]);
        costs.push(work);
    }
    let many = Ground::new(Mode::RoundRobin(MANY), 1).await;
    let work = cost(&many, MANY).await;
    assert_eq!(many.objections(&work, 0), [""; 0]);
    // Every lane that is visited takes a probe, and no more are visited than jobs are wanted.
    for (few, percent) in costs.iter().zip([160, 130]) {
        assert!(work.buffers * 100 <= few.buffers * percent, "{few}; of {MANY} {work}");
    }

    // A walk that goes round the whole ring, whatever is wanted.
    many.clear().await;
    Mutant::of("claim_turns").replace("WHERE r.nth < want AND", "WHERE").apply(&many.scene).await;
    let broken = cost(&many, MANY).await;
    assert_ne!(many.objections(&broken, 0), [""; 0], "nobody notices a walk round the whole ring");
}

/// Cohorts of actors that the worker does not serve.
#[tokio::test]
async fn cohorts_that_are_not_polled_do_not_matter() {
    let ground = Ground::new(ROUND_ROBIN, LANES).await;
    let mut meter = Meter::open(&ground).await;
    ground.early_plans(&mut meter).await;
    ground.add(1_000, &[]).await;
    let before = meter.cost(ground.worker, WANT, OVERSAMPLE).await;
    // Between the worker's actors in the order of the index, before them and behind them.
    let others = [
        ("actor", "(ARRAY['a', 'actor3x', 'z'])[1 + n % 3]"),
        ("cohort", "'tenant' || n"),
        ("priority", "100"),
    ];
    ground.add(MANY, &others).await;
    let after = meter.cost(ground.worker, WANT, OVERSAMPLE).await;
    assert_eq!(ground.objections_beside(&after, &before), [""; 0]);
}

/// A queue that was in the mode once may still get jobs with a cohort, which its claims look for.
#[tokio::test]
async fn a_queue_that_took_turns_once_costs_what_one_costs_that_never_did() {
    let ground = Ground::new(Mode::StrictFifo, LANES).await;
    let mut meter = Meter::open(&ground).await;
    ground.early_plans(&mut meter).await;
    ground.add(1_000, &[]).await;
    let before = meter.cost(ground.worker, WANT, OVERSAMPLE).await;
    ground.scene.run("SELECT * FROM taskq.set_queue('q', 'round_robin'); SELECT * FROM taskq.set_queue('q', 'strict_fifo')").await;
    let after = meter.cost(ground.worker, WANT, OVERSAMPLE).await;
    assert_eq!(ground.objections_beside(&after, &before), [""; 0]);
}
