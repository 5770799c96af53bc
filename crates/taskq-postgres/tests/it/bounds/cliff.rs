//! A claim as one large statement that settles which jobs it takes before it touches the table again: what such a one does
//! when others are at work, and when it is planned without its parameters. Ours must do neither.

use uuid::Uuid;

use super::ground::{Ground, Mode, OVERSAMPLE, WANT};
use super::oracle::{Meter, Work};
use crate::sql::scene::claim;

/// Candidates of each actor, bounded by subqueries; the best of all; these joined back to the table, locked and updated.
/// Parameters: actors, jobs wanted, worker, candidates for each job wanted.
const ONE_STATEMENT: &str = "
    WITH asked AS (
        SELECT $2::integer AS wanted, $4::integer AS oversample
    ), candidates AS (
        SELECT c.* FROM unnest($1::text[]) a(actor) CROSS JOIN LATERAL (
            SELECT j.id, j.actor, j.priority, j.scheduled_at FROM taskq.jobs j
            WHERE j.queue = 'q' AND j.actor = a.actor AND j.status = 'pending'
            ORDER BY j.priority DESC, j.scheduled_at, j.id
            LIMIT (SELECT wanted * oversample FROM asked)
        ) c
    ), ranked AS MATERIALIZED (
        SELECT c.*, row_number() OVER (PARTITION BY c.actor ORDER BY c.priority DESC, c.scheduled_at, c.id) AS nth
        FROM candidates c
    ), best AS (
        SELECT r.id FROM ranked r ORDER BY r.nth, r.priority DESC, r.scheduled_at, r.id LIMIT (SELECT wanted FROM asked)
    ), locked AS (
        SELECT r.id FROM best b JOIN ranked r ON r.id = b.id JOIN taskq.jobs j ON j.id = r.id
        WHERE j.status = 'pending'
        ORDER BY r.nth, r.priority DESC, r.scheduled_at, r.id
        FOR UPDATE OF j SKIP LOCKED
    ), taken AS (
        UPDATE taskq.jobs j
        SET status = 'running', attempt = j.attempt + 1, claim_epoch = j.claim_epoch + 1, locked_by_worker = $3, started_at = now()
        FROM locked l WHERE j.id = l.id
        RETURNING j.id
    )
    SELECT count(*) FROM taken";

/// Claims with the one statement, planned once for whatever it is asked.
async fn one_statement(meter: &mut Meter, worker: Uuid) -> Work {
    let actors = ["actor0".to_owned()];
    let actors: &[String] = &actors;
    meter.run("SET jit = off; SET plan_cache_mode = force_generic_plan; BEGIN").await;
    let work = meter.count(ONE_STATEMENT, &[&actors, &WANT, &worker, &OVERSAMPLE]).await.unwrap();
    meter.run("ROLLBACK").await;
    work
}

#[tokio::test]
async fn what_is_settled_before_it_is_locked_is_short_where_ours_is_full() {
    let ground = Ground::new(Mode::StrictFifo, 1).await;
    ground.add(1_000, &[]).await;
    let peer = ground.scene.session().await;
    peer.batch_execute("BEGIN").await.unwrap();
    assert_eq!(claim(&peer, ground.worker, 48).await.unwrap().len(), 48);
    let mut meter = Meter::open(&ground).await;
    assert_eq!(one_statement(&mut meter, ground.worker).await.jobs, 2, "two of the best fifty are free");
    assert_eq!(meter.cost(ground.worker, WANT, OVERSAMPLE).await.jobs, 50);
}

#[tokio::test]
async fn what_is_planned_without_its_bounds_reads_the_backlog_and_ours_does_not() {
    let ground = Ground::new(Mode::StrictFifo, 1).await;
    ground.add(30_000, &[]).await;
    ground.scene.run("ANALYZE taskq.jobs").await;
    let mut meter = Meter::open(&ground).await;
    let large = one_statement(&mut meter, ground.worker).await;
    assert_eq!(large.jobs, 50);
    assert!(large.rows >= 30_000.0, "{large}");
    assert_ne!(ground.objections(&large, 0), [""; 0]);
    let ours = meter.cost(ground.worker, WANT, OVERSAMPLE).await;
    assert_eq!(ground.objections(&ours, 0), [""; 0]);
}
