//! Workers that differ in one thing, beside each other.

use taskq_testkit::{Cluster, PgBouncer, PgBouncerError, PoolMode};

use super::super::child::{Body, Way};
use super::super::progress::Progress;
use super::super::report::Row;
use super::super::rounds::{Rates, Rounds, median};
use super::super::scene::Scene;
use super::{By, Case, Drained, Kind, measure, rates_of, row_of};
use crate::cli::DrainArgs;
use crate::exit::{Failure, with_sources};

/// How many sessions the pooler has; more than a worker has connections, as is usual.
const SESSIONS: u32 = 20;

/// The pooled mode beside the direct one: on the server itself, and through a pooler where there is one. What is left
/// out is said.
pub(super) async fn modes(
    args: &DrainArgs,
    rounds: Rounds,
    scene: &Scene,
    progress: &Progress,
) -> Result<(Vec<Row>, Option<String>), Failure> {
    let server = Cluster::at(scene.database().dsn.as_str());
    let starting = move || PgBouncer::start(&server, PoolMode::Transaction, SESSIONS, &[]);
    let started = tokio::task::spawn_blocking(starting).await;
    let (pooler, note) = match started.map_err(|error| Failure::failed(error.to_string()))? {
        Ok(pooler) => (Some(pooler), None),
        Err(error @ (PgBouncerError::Missing | PgBouncerError::Server)) => {
            (None, Some(format!("The worker was not measured through pgbouncer: {error}.")))
        }
        Err(error) => return Err(Failure::failed(with_sources(&error))),
    };
    let mut kinds = vec![Kind::Way(Way::Direct), Kind::Way(Way::Pooled)];
    let through = match &pooler {
        Some(pooler) => {
            kinds.push(Kind::Pooler);
            let database = scene.control().one("SELECT current_database()", &[]).await?;
            Some(pooler.dsn_of(database.get(0)))
        }
        None => None,
    };
    let cases = cases(args, &kinds);
    let drained = measure(args, rounds, &cases, (scene, through.as_deref()), progress).await?;
    let rates: Vec<Rates> = drained.iter().map(|samples| rates_of(samples)).collect();
    let row = |at: usize| {
        row_of(&cases[at], &drained[at])
            .with("ratio_to_direct", rates[at].ratio_to(&rates[0]))
            .with("ratio_to_direct_median", rates[at].median_ratio_to(&rates[0]))
    };
    Ok(((0..cases.len()).map(row).collect(), note))
}

/// A typed handler that does nothing beside one without a type: what is between them is the way through the types.
pub(super) async fn handlers(
    args: &DrainArgs,
    rounds: Rounds,
    scene: &Scene,
    progress: &Progress,
) -> Result<Vec<Row>, Failure> {
    let cases = cases(args, &[Kind::Body(Body::Untyped), Kind::Body(Body::Typed)]);
    let drained = measure(args, rounds, &cases, (scene, None), progress).await?;
    let cpu = |samples: &[Drained]| samples.iter().map(Drained::worker_cpu_us_per_job).collect::<Vec<_>>();
    let untyped = cpu(&drained[0]);
    let row = |at: usize| {
        let of_this = cpu(&drained[at]);
        let over = of_this.iter().zip(&untyped).map(|(typed, untyped)| typed - untyped);
        row_of(&cases[at], &drained[at])
            .with("worker_cpu_us_per_job", median(of_this.iter().copied()))
            .with("cpu_us_over_untyped", (at > 0).then(|| median(over)))
    };
    Ok((0..cases.len()).map(row).collect())
}

fn cases(args: &DrainArgs, kinds: &[Kind]) -> Vec<Case> {
    let of_kind = |kind: &Kind| Case {
        by: By::Workers { slots: args.slots, processes: args.processes, kind: *kind },
        jobs: args.jobs,
    };
    kinds.iter().map(of_kind).collect()
}
