//! How much is ready.

use super::axis::{Axis, NO_ORDER};
use super::ground::{Ground, LANES, Mode, OVERSAMPLE, ROUND_ROBIN, WANT};
use super::oracle::Meter;

const READY: Axis = Axis { ready: 1_000, more: 29_000, columns: &[], beside: "", break_it: NO_ORDER };

#[tokio::test]
async fn a_claim_costs_the_same_at_a_thousand_and_at_thirty_thousand_ready() {
    READY.test(Mode::StrictFifo).await;
}

#[tokio::test]
async fn a_claim_by_turns_costs_the_same_at_a_thousand_and_at_thirty_thousand_ready() {
    READY.test(ROUND_ROBIN).await;
}

/// The checker itself can fail: without the index that the claim relies on it objects to everything but the number of jobs.
#[tokio::test]
async fn the_oracle_sees_the_index_go() {
    let ground = Ground::new(Mode::StrictFifo, LANES).await;
    let mut meter = Meter::open(&ground).await;
    ground.early_plans(&mut meter).await;
    ground.add(5_000, &[]).await;
    let sound = meter.cost(ground.worker, WANT, OVERSAMPLE).await;
    assert_eq!(ground.objections(&sound, 0), [""; 0]);
    ground.scene.run("DROP INDEX taskq.jobs_ready_idx").await;
    let broken = meter.cost(ground.worker, WANT, OVERSAMPLE).await;
    let objections = ground.objections(&broken, 0).join("; ");
    for objection in ["too many buffers", "too wide a node", "too many rows read"] {
        assert!(objections.contains(objection), "{objection}: {objections}");
    }
}
