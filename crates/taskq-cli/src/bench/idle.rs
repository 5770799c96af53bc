//! What a worker without work costs: statements and connections, one that leads and one that does not.

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
/// transaction.
const CALLS: &str = "
    SELECT coalesce(sum(s.calls), 0)::bigint FROM {view} s JOIN pg_database d ON d.oid = s.dbid
    WHERE d.datname = current_database() AND s.toplevel
        AND s.query !~* '^(begin|commit|rollback|start transaction)' AND s.query NOT LIKE '%pg_stat_statements%'
        AND s.query NOT LIKE '%pg_stat_activity%'";

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
        let connections = connections(scene, LEADER).await?;
        rows.push(row("leader", slots, of_leader, connections));

        let other = start(scene, slots, OTHER).await?;
        until(scene, BOTH_WORK).await?;
        let of_both = watch(scene, seconds, progress).await?;
        let of_other = of_both.zip(of_leader).map(|(both, leader)| (both - leader).max(0.0));
        rows.push(row("worker", slots, of_other, self::connections(scene, OTHER).await?));
        other.stop().await?;
        leader.stop().await?;
    }
    Ok(rows)
}

fn row(case: &str, slots: u32, statements: Option<f64>, connections: u64) -> Row {
    Row::of(case)
        .with("part", "idle")
        .with("slots", slots)
        .with("statements_per_s", statements)
        .with("connections", connections)
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
async fn watch(scene: &Scene, seconds: u32, progress: &Progress) -> Result<Option<f64>, Failure> {
    tokio::time::sleep(REST.min(Duration::from_secs(seconds.into()))).await;
    let before = calls(scene).await?;
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        progress.advance(1);
    }
    let after = calls(scene).await?;
    #[expect(clippy::cast_precision_loss, reason = "a rate is computed")]
    Ok(before.zip(after).map(|(before, after)| (after - before) as f64 / f64::from(seconds)))
}

async fn calls(scene: &Scene) -> Result<Option<i64>, Failure> {
    let Some(view) = scene.statements() else { return Ok(None) };
    Ok(Some(scene.control().one(&CALLS.replace("{view}", view), &[]).await?.get(0)))
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
    fn a_dsn_of_either_form_gets_a_name() {
        assert_eq!(named("host=a", "n"), "host=a application_name=n");
        assert_eq!(named("postgres://a/b", "n"), "postgres://a/b?application_name=n");
        assert_eq!(named("postgres://a/b?c=d", "n"), "postgres://a/b?c=d&application_name=n");
    }
}
