//! Ways to write a claim that look as good and are not.

use super::ground::{Ground, LANES, Mode, OVERSAMPLE, WANT};
use super::oracle::Meter;
use crate::sql::mutant::Mutant;

/// What is objected to at thirty thousand ready jobs, beside a thousand, in a session whose plans were made when there was
/// next to nothing.
async fn objections(mutant: fn() -> Mutant) -> Vec<String> {
    let mut objections = Vec::new();
    // A session may have to forget its plans, when many others change their catalogs, and then makes better ones.
    for _ in 0..3 {
        let ground = Ground::new(Mode::StrictFifo, LANES).await;
        mutant().apply(&ground.scene).await;
        let mut meter = Meter::open(&ground).await;
        ground.early_plans(&mut meter).await;
        ground.add(1_000, &[]).await;
        let before = meter.cost(ground.worker, WANT, OVERSAMPLE).await;
        ground.add(29_000, &[]).await;
        let after = meter.cost(ground.worker, WANT, OVERSAMPLE).await;
        objections = ground.objections_beside(&after, &before);
        if !objections.is_empty() {
            break;
        }
    }
    objections
}

/// A lane named by a list instead of by equality sorts the backlog.
#[tokio::test]
async fn the_oracle_sees_a_list_of_lanes() {
    let mutant =
        || Mutant::of("claim_group").replace("j.queue = l.queue AND", "j.queue = ANY (lane_queues) AND");
    assert_ne!(objections(mutant).await, [""; 0]);
}

/// A row re-found by its key and a status can be served by an index on that status, which is then read from end to end.
#[tokio::test]
async fn the_oracle_sees_rows_re_found_by_key_and_status() {
    let mutant = || {
        Mutant::of("claim_group")
            .replace("SELECT j.ctid AS tid, coalesce", "SELECT j.id AS tid, coalesce")
            .replace("tids tid[]", "tids uuid[]")
            .replace("WHERE j.ctid = ANY (tids)", "WHERE j.id = ANY (tids) AND j.status = 'pending'")
    };
    assert_ne!(objections(mutant).await, [""; 0]);
}
