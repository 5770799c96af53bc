//! Actors: those that others registered, those that nobody serves, and those that the worker serves itself.

use super::axis::{Axis, EVERY_ACTOR};
use super::ground::{Ground, LANES, Mode, OVERSAMPLE, WANT};
use super::oracle::Meter;

const REGISTERED: Axis = Axis {
    ready: 1_000,
    more: 0,
    columns: &[],
    beside: "
        INSERT INTO taskq.workers (id, started_at, beat_at, lease_expires_at, queues, actors)
        SELECT gen_random_uuid(), now(), now(), now() + interval '1 hour', '{q}',
            (SELECT array_agg(format('of_%s_%s', w, a)) FROM generate_series(1, 10) a)
        FROM generate_series(1, 500) w",
    // The lanes of a claim come from all that is registered, instead of from the worker's own list.
    break_it: "
        DO $$
        DECLARE
            own text := pg_get_functiondef('taskq.check_claim'::regproc);
            arguments text := pg_get_function_arguments('taskq.check_claim'::regproc);
            names text := (SELECT string_agg(format('%I', name), ', ') FROM unnest(
                (SELECT proargnames FROM pg_proc WHERE oid = 'taskq.check_claim'::regproc)) name);
        BEGIN
            EXECUTE replace(own, 'taskq.check_claim', 'taskq.check_own_claim');
            EXECUTE format('CREATE OR REPLACE FUNCTION taskq.check_claim(%s) RETURNS text[] LANGUAGE sql VOLATILE AS %L', arguments,
                format('SELECT taskq.check_own_claim(%s); SELECT array_agg(DISTINCT a) FROM taskq.workers w, unnest(w.actors) a', names));
        END $$",
};
const UNSERVED: Axis = Axis {
    ready: 1_000,
    more: 5_000,
    columns: &[("priority", "100"), ("actor", "'nobody_serves_' || n % 100")],
    beside: "",
    break_it: EVERY_ACTOR,
};

#[tokio::test]
async fn actors_that_other_workers_registered_do_not_matter() {
    REGISTERED.test(Mode::StrictFifo).await;
}

#[tokio::test]
async fn jobs_of_actors_that_the_worker_does_not_serve_do_not_matter() {
    UNSERVED.test(Mode::StrictFifo).await;
}

/// As many candidates of each lane as if there were no others.
const OF_EACH_LANE: i32 = 100;

/// Six times as many actors cost at most twice as much, since of each fewer jobs are looked at.
async fn forty_eight_cost_at_most_twice_as_much_as_eight(mode: Mode) {
    let few = Ground::new(mode, LANES).await;
    let many = Ground::new(mode, 48).await;
    let mut meters = [Meter::open(&few).await, Meter::open(&many).await];
    let mut costs = Vec::new();
    for (ground, meter) in [&few, &many].into_iter().zip(&mut meters) {
        ground.early_plans(meter).await;
        ground.add(5_000, &[]).await;
        let sound = meter.cost(ground.worker, WANT, OVERSAMPLE).await;
        assert_eq!(ground.objections(&sound, 0), [""; 0]);
        let broken = meter.cost(ground.worker, WANT, OF_EACH_LANE).await;
        costs.push((sound, broken));
    }
    let (eight, forty_eight) = (&costs[0], &costs[1]);
    assert!(
        forty_eight.0.buffers <= 2 * eight.0.buffers && forty_eight.0.rows <= 2.0 * eight.0.rows,
        "{}; with 48 lanes {}",
        eight.0,
        forty_eight.0
    );
    assert_ne!(
        many.objections(&forty_eight.1, 0),
        [""; 0],
        "nobody notices that each lane is read to the full"
    );
}

#[tokio::test]
async fn six_times_the_served_actors_cost_at_most_twice_as_much() {
    forty_eight_cost_at_most_twice_as_much_as_eight(Mode::StrictFifo).await;
}
