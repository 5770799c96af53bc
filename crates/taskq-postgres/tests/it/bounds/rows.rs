//! Rows that are not ready, all of them better placed than those that are.

use super::axis::{Axis, EVERY_STATUS};
use super::ground::{Columns, Mode, ROUND_ROBIN};

const MANY: usize = 5_000;

/// So many rows with these columns beside a thousand ready jobs.
const fn beside_ready(columns: Columns) -> Axis {
    Axis { ready: 1_000, more: MANY, columns, beside: "", break_it: EVERY_STATUS }
}

const SCHEDULED: Axis = beside_ready(&[
    ("priority", "100"),
    ("status", "'scheduled'"),
    ("scheduled_at", "now() + n * interval '1 second'"),
]);
const FINISHED: Axis = beside_ready(&[
    ("priority", "100"),
    (
        "status",
        "(ARRAY['succeeded', 'failed', 'cancelled', 'crashed', 'abandoned'])[1 + n % 5]::taskq.job_status",
    ),
    ("attempt", "1"),
    ("claim_epoch", "1"),
    ("finished_at", "now()"),
    ("prune_at", "now() + interval '1 hour'"),
]);
/// Of another worker, and of this one, which may claim while it runs as many.
const RUNNING: Axis = beside_ready(&[
    ("priority", "100"),
    ("status", "'running'"),
    ("attempt", "1"),
    ("claim_epoch", "1"),
    ("started_at", "now()"),
    (
        "locked_by_worker",
        "CASE n % 2 WHEN 0 THEN gen_random_uuid() ELSE (SELECT id FROM taskq.workers LIMIT 1) END",
    ),
]);
/// They wait for their next attempt.
const RETRIED: Axis = Axis {
    beside: "
        INSERT INTO taskq.job_attempts (job_id, epoch, attempt, outcome, worker, started_at, finished_at)
        SELECT j.id, a, a, 'failed', gen_random_uuid(), now(), now()
        FROM taskq.jobs j CROSS JOIN generate_series(1, 3) a WHERE j.attempt = 3",
    ..beside_ready(&[
        ("priority", "100"),
        ("status", "'scheduled'"),
        ("scheduled_at", "now() + n * interval '1 millisecond'"),
        ("attempt", "3"),
        ("claim_epoch", "3"),
        ("error", "'{\"class\": \"error\", \"message\": \"no\"}'"),
    ])
};

#[tokio::test]
async fn jobs_scheduled_for_later_do_not_matter() {
    SCHEDULED.test(Mode::StrictFifo).await;
}

#[tokio::test]
async fn jobs_scheduled_for_later_do_not_matter_to_turns() {
    SCHEDULED.test(ROUND_ROBIN).await;
}

#[tokio::test]
async fn finished_jobs_do_not_matter() {
    FINISHED.test(Mode::StrictFifo).await;
}

#[tokio::test]
async fn finished_jobs_do_not_matter_to_turns() {
    FINISHED.test(ROUND_ROBIN).await;
}

#[tokio::test]
async fn running_jobs_do_not_matter() {
    RUNNING.test(Mode::StrictFifo).await;
}

#[tokio::test]
async fn running_jobs_do_not_matter_to_turns() {
    RUNNING.test(ROUND_ROBIN).await;
}

#[tokio::test]
async fn jobs_that_wait_for_their_next_attempt_do_not_matter() {
    RETRIED.test(Mode::StrictFifo).await;
}

#[tokio::test]
async fn jobs_that_wait_for_their_next_attempt_do_not_matter_to_turns() {
    RETRIED.test(ROUND_ROBIN).await;
}
