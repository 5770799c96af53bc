//! What a worker without work costs: statements and connections, one that leads and one that does not.

use std::collections::BTreeMap;
use std::time::Duration;

use super::child::Body;
use super::crew::Crew;
use super::drain::orders;
use super::progress::Progress;
use super::report::Row;
use super::scene::Scene;
use crate::exit::Failure;

/// How long a worker may take until it leads, and to be quiet after that.
const PATIENCE: Duration = Duration::from_mins(1);
const REST: Duration = Duration::from_secs(3);

/// What a worker's connections are named after.
const LEADER: &str = "bench-leader";
const OTHER: &str = "bench-other";

/// Statements that were sent as such: what a function runs inside is not counted, and neither are the ends of a
/// transaction. A statement that calls a function of the schema goes by its name.
const CALLS: &str = r"
    SELECT coalesce(substring(s.query FROM '{schema}\W+(\w+)'), left(s.query, 40)) AS name, sum(s.calls)::bigint
    FROM {view} s JOIN pg_database d ON d.oid = s.dbid
    WHERE d.datname = current_database() AND s.toplevel
        AND s.query !~* '^(begin|commit|rollback|start transaction)' AND s.query !~ 'pg_stat_(statements|activity)'
    GROUP BY 1";

const LEADS: &str = r#"
    SELECT EXISTS (SELECT FROM "{schema}".leader l JOIN "{schema}".workers w ON w.id = l.worker
        WHERE l.expires_at > clock_timestamp() AND w.state = 'active')"#;

const BOTH_WORK: &str = r#"SELECT count(*) = 2 FROM "{schema}".workers WHERE state = 'active'"#;

/// Watches an idle leader, then the same beside another worker; the difference is the other one's.
pub(super) async fn rows(
    scene: &Scene,
    slots: &[u32],
    seconds: u32,
    progress: &Progress,
) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for slots in slots.iter().copied() {
        progress.say(format!("idle: {slots} slots"));
        scene.empty().await?;
        let leader = start(scene, slots, LEADER).await?;
        until(scene, LEADS).await?;
        let of_leader = watch(scene, seconds, progress).await?;
        rows.push(row("leader", slots, of_leader.as_ref(), connections(scene, LEADER).await?));

        let other = start(scene, slots, OTHER).await?;
        until(scene, BOTH_WORK).await?;
        let of_both = watch(scene, seconds, progress).await?;
        let of_other = of_both.zip(of_leader).map(|(both, leader)| both.without(&leader));
        rows.push(row("worker", slots, of_other.as_ref(), connections(scene, OTHER).await?));
        other.stop().await?;
        leader.stop().await?;
    }
    Ok(rows)
}

fn row(case: &str, slots: u32, calls: Option<&Calls>, connections: u64) -> Row {
    Row::of(case)
        .with("part", "idle")
        .with("slots", slots)
        .with("statements_per_s", calls.map(Calls::total))
        .with("connections", connections)
        .with("statements", calls.map(Calls::text))
}

/// How often statements were called, by their names.
#[derive(Clone, Debug, PartialEq)]
struct Calls(BTreeMap<String, f64>);

impl Calls {
    /// Takes away what another has, if it is less.
    fn without(&self, other: &Self) -> Self {
        let less = |(name, calls): (&String, &f64)| {
            (name.clone(), (calls - other.0.get(name).copied().unwrap_or(0.0)).max(0.0))
        };
        Self(self.0.iter().map(less).collect())
    }

    fn total(&self) -> f64 {
        self.0.values().sum()
    }

    /// Lists them, the busiest first.
    fn text(&self) -> String {
        let mut calls: Vec<_> = self.0.iter().filter(|(_, calls)| **calls > 0.0).collect();
        calls.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        calls.iter().map(|(name, calls)| format!("{name} {calls:.2}")).collect::<Vec<_>>().join(", ")
    }
}

async fn start(scene: &Scene, slots: u32, name: &str) -> Result<Crew, Failure> {
    let mut orders = orders(scene, slots, 1, 1, Body::Nothing);
    for orders in &mut orders {
        orders.dsn = named(&orders.dsn, name);
    }
    let mut crew = Crew::start(&orders).await?;
    crew.go().await?;
    Ok(crew)
}

/// Adds a name for the connections to a DSN; of repeated settings the last one counts.
fn named(dsn: &str, name: &str) -> String {
    match (dsn.contains("://"), dsn.contains('?')) {
        (false, _) => format!("{dsn} application_name={name}"),
        (true, false) => format!("{dsn}?application_name={name}"),
        (true, true) => format!("{dsn}&application_name={name}"),
    }
}

async fn until(scene: &Scene, question: &str) -> Result<(), Failure> {
    let reached = async {
        while !scene.control().one(question, &[]).await?.get::<_, bool>(0) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    };
    let waited = tokio::time::timeout(PATIENCE, reached).await;
    waited.unwrap_or_else(|_| {
        Err(Failure::failed(format!("the idle workers are not ready after {PATIENCE:?}")))
    })
}

/// Counts the statements that arrive, per second.
async fn watch(scene: &Scene, seconds: u32, progress: &Progress) -> Result<Option<Calls>, Failure> {
    tokio::time::sleep(REST.min(Duration::from_secs(seconds.into()))).await;
    let before = calls(scene).await?;
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        progress.advance(1);
    }
    let after = calls(scene).await?;
    let per_second = |calls: Calls| {
        Calls(calls.0.into_iter().map(|(name, calls)| (name, calls / f64::from(seconds))).collect())
    };
    Ok(before.zip(after).map(|(before, after)| per_second(after.without(&before))))
}

/// Reads the counts since the server began to count.
async fn calls(scene: &Scene) -> Result<Option<Calls>, Failure> {
    let Some(view) = scene.statements() else { return Ok(None) };
    let session = scene.control();
    let rows = session.client.query(&session.sql(CALLS).replace("{view}", view), &[]).await?;
    #[expect(clippy::cast_precision_loss, reason = "a rate is computed")]
    let count = |row: &tokio_postgres::Row| (row.get(0), row.get::<_, i64>(1) as f64);
    Ok(Some(Calls(rows.iter().map(count).collect())))
}

async fn connections(scene: &Scene, name: &str) -> Result<u64, Failure> {
    let count = "SELECT count(*) FROM pg_stat_activity WHERE starts_with(application_name, $1)";
    let found: i64 = scene.control().one(count, &[&name]).await?.get(0);
    Ok(u64::try_from(found).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_do_less_what_one_does() {
        let calls = |pairs: &[(&str, f64)]| {
            Calls(pairs.iter().map(|(name, calls)| ((*name).to_owned(), *calls)).collect())
        };
        let both = calls(&[("heartbeat", 0.5), ("claim_slots", 1.0), ("sweep", 0.25)]);
        let other = both.without(&calls(&[("heartbeat", 0.25), ("claim_slots", 0.5), ("sweep", 0.5)]));
        assert_eq!(other.text(), "claim_slots 0.50, heartbeat 0.25");
        assert!((other.total() - 0.75).abs() < f64::EPSILON);
    }

    #[test]
    fn a_dsn_of_either_form_gets_a_name() {
        assert_eq!(named("host=a", "n"), "host=a application_name=n");
        assert_eq!(named("postgres://a/b", "n"), "postgres://a/b?application_name=n");
        assert_eq!(named("postgres://a/b?c=d", "n"), "postgres://a/b?c=d&application_name=n");
    }
}
