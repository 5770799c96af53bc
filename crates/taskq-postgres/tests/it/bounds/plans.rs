//! What the planner knows and when it planned.

use super::ground::{Ground, LANES, Mode, OVERSAMPLE, ROUND_ROBIN, WANT};
use super::oracle::Meter;
use crate::sql::mutant::Mutant;

/// What a session may have set. A server can be set up so for everybody.
const SETTINGS: [&str; 5] = [
    "SET plan_cache_mode = auto",
    "SET plan_cache_mode = force_generic_plan",
    "SET plan_cache_mode = force_custom_plan",
    COMPILE,
    COSTS,
];
const COMPILE: &str =
    "SET jit = on; SET jit_above_cost = 0; SET jit_inline_above_cost = 0; SET jit_optimize_above_cost = 0";

/// Which make every scan of a whole table look better than any index.
const COSTS: &str = "SET enable_seqscan = on; SET enable_bitmapscan = on; SET random_page_cost = 1000; SET cpu_tuple_cost = 0";

const READY: usize = 10_000;

/// The functions that read `jobs` for a claim.
const CLAIMS: [&str; 5] = ["claim_lane", "claim_group", "claim_turns", "start_turn", "merge_cohorts"];

/// A session for each of the settings, whose plans were made when there was next to nothing.
async fn early_sessions(ground: &Ground) -> Vec<(&'static str, Meter)> {
    let mut sessions = Vec::new();
    for settings in SETTINGS {
        let mut meter = Meter::open(ground).await;
        meter.run(settings).await;
        ground.early_plans(&mut meter).await;
        sessions.push((settings, meter));
    }
    sessions
}

/// What is objected to in these sessions, and in new ones.
async fn objections(ground: &Ground, sessions: &mut [(&'static str, Meter)]) -> Vec<String> {
    let mut objections = Vec::new();
    for (settings, old) in sessions {
        let mut new = Meter::open(ground).await;
        new.run(settings).await;
        for (age, meter) in [("old", old), ("new", &mut new)] {
            let work = meter.cost(ground.worker, WANT, OVERSAMPLE).await;
            let found = ground.objections(&work, 0);
            objections.extend(found.into_iter().map(|found| format!("{age} session, {settings}: {found}")));
        }
    }
    objections
}

async fn hold_whatever_the_planner_knows(mode: Mode, lanes: usize) {
    let ground = Ground::new(mode, lanes).await;
    let mut sessions = early_sessions(&ground).await;
    ground.add(READY, &[]).await;
    assert_eq!(objections(&ground, &mut sessions).await, [""; 0], "without statistics");
    ground.scene.run("ANALYZE taskq.jobs").await;
    assert_eq!(objections(&ground, &mut sessions).await, [""; 0], "with fresh statistics");
    ground.clear().await;
    ground.scene.run("ANALYZE taskq.jobs").await;
    let mut sessions = early_sessions(&ground).await;
    ground.add(READY, &[]).await;
    assert_eq!(objections(&ground, &mut sessions).await, [""; 0], "with the statistics of the empty table");
}

async fn would_not_hold_without_the_pins(mode: Mode, lanes: usize) {
    let ground = Ground::new(mode, lanes).await;
    for function in CLAIMS {
        Mutant::of(function).without_pins().apply(&ground.scene).await;
    }
    let mut sessions = early_sessions(&ground).await;
    ground.add(READY, &[]).await;
    let objections = objections(&ground, &mut sessions).await.join("\n");
    // Which other states are lucky is the planner's business, and whether a session had to forget its plans meanwhile.
    assert!(objections.contains(&format!("new session, {COSTS}")), "{objections}");
    // Not every server can compile.
    if ground.scene.value("SELECT pg_jit_available()").await {
        assert!(objections.contains("compiled"), "{objections}");
    }
}

#[tokio::test]
async fn bounds_hold_in_every_state_of_statistics_plans_and_settings() {
    hold_whatever_the_planner_knows(Mode::StrictFifo, LANES).await;
}

#[tokio::test]
async fn bounds_of_one_lane_hold_in_every_state_of_statistics_plans_and_settings() {
    hold_whatever_the_planner_knows(Mode::StrictFifo, 1).await;
}

#[tokio::test]
async fn bounds_of_turns_hold_in_every_state_of_statistics_plans_and_settings() {
    hold_whatever_the_planner_knows(ROUND_ROBIN, LANES).await;
}

#[tokio::test]
async fn bounds_do_not_hold_without_the_pins() {
    would_not_hold_without_the_pins(Mode::StrictFifo, LANES).await;
}

#[tokio::test]
async fn bounds_of_one_lane_do_not_hold_without_the_pins() {
    would_not_hold_without_the_pins(Mode::StrictFifo, 1).await;
}

#[tokio::test]
async fn bounds_of_turns_do_not_hold_without_the_pins() {
    would_not_hold_without_the_pins(ROUND_ROBIN, LANES).await;
}
