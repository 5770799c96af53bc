//! Actors: those that others registered, those that nobody serves, and those that the worker serves itself.

use super::axis::{Axis, EVERY_ACTOR};
use super::ground::{Ground, LANES, Mode, OVERSAMPLE, ROUND_ROBIN, WANT};
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
            names text := (SELECT string_agg(format('%I', p.proargnames[n]), ', ' ORDER BY n)
                FROM pg_proc p, generate_series(1, p.pronargs) n WHERE p.oid = 'taskq.check_claim'::regproc);
        BEGIN
            EXECUTE replace(own, 'taskq.check_claim', 'taskq.check_own_claim');
            EXECUTE format('CREATE OR REPLACE FUNCTION taskq.check_claim(%s) LANGUAGE sql VOLATILE AS %L', arguments,
                format('SELECT (SELECT array_agg(DISTINCT a) FROM taskq.workers w, unnest(w.actors) a), o.paused, o.turning, o.mixed
                    FROM taskq.check_own_claim(%s) o', names));
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
async fn actors_that_other_workers_registered_do_not_matter_to_turns() {
    REGISTERED.test(ROUND_ROBIN).await;
}

#[tokio::test]
async fn jobs_of_actors_that_the_worker_does_not_serve_do_not_matter() {
    UNSERVED.test(Mode::StrictFifo).await;
}

#[tokio::test]
async fn jobs_of_actors_that_the_worker_does_not_serve_do_not_matter_to_turns() {
    UNSERVED.test(ROUND_ROBIN).await;
}

/// As many candidates of each lane as if there were no others.
const OF_EACH_LANE: i32 = 100;

/// Six times as many actors cost at most twice as much, since of each fewer jobs are looked at. Returns what they cost if
/// each lane is read to the full.
async fn six_times_the_actors(mode: Mode) -> Vec<String> {
    let mut costs = Vec::new();
    let mut broken = Vec::new();
    for lanes in [LANES, 6 * LANES] {
        let ground = Ground::new(mode, lanes).await;
        let mut meter = Meter::open(&ground).await;
        ground.early_plans(&mut meter).await;
        ground.add(5_000, &[]).await;
        let work = meter.cost(ground.worker, WANT, OVERSAMPLE).await;
        assert_eq!(ground.objections(&work, 0), [""; 0]);
        costs.push(work);
        broken = ground.objections(&meter.cost(ground.worker, WANT, OF_EACH_LANE).await, 0);
    }
    let (few, many) = (&costs[0], &costs[1]);
    assert!(many.buffers <= 2 * few.buffers && many.rows <= 2.0 * few.rows, "{few}; with more {many}");
    broken
}

#[tokio::test]
async fn six_times_the_served_actors_cost_at_most_twice_as_much() {
    let broken = six_times_the_actors(Mode::StrictFifo).await;
    assert_ne!(broken, [""; 0], "nobody notices that each lane is read to the full");
}

#[tokio::test]
async fn six_times_the_served_actors_cost_turns_at_most_twice_as_much() {
    six_times_the_actors(ROUND_ROBIN).await;
}
