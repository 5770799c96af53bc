//! Hooks of ends that are told too late, or of nothing any more.

use taskq_core::store::StoreError;

use super::probe::Probe;
use super::{Diagnosis, Doctor};
use crate::codec::{Columns, Interval};

const HOUR: u64 = 3_600;

impl Doctor {
    /// A hook misses what is swept before it is told of it.
    pub(super) async fn hooks(&self, probe: &Probe) -> Result<Vec<Diagnosis>, StoreError> {
        let rows = probe.query(include_str!("../../sql/doctor/hooks.sql"), &[]).await?;
        let schema = probe.schema();
        let mut found = Vec::new();
        for row in &rows {
            let mut columns = Columns::of(row);
            let (hook, since): (String, Option<String>) = (columns.read()?, columns.read()?);
            let mut hours =
                || Ok::<_, StoreError>(columns.read::<Option<Interval>>()?.map(|it| it.0.as_secs() / HOUR));
            let (unheld, waits, kept) = (hours()?, hours()?, hours()?.unwrap_or_default());
            let missed = unheld.max(waits).is_some_and(|hours| hours >= kept);
            let message = match (since, waits) {
                (Some(since), _) => format!("nobody has held the hook of ends {hook} since {since}"),
                (None, Some(waits)) => {
                    format!(
                        "the hook of ends {hook} is behind: what it is to be told next happened {waits} h ago"
                    )
                }
                (None, None) => format!("nobody holds the hook of ends {hook}"),
            };
            let will = if missed { "it has missed ends" } else { "it will miss ends" };
            found.push(Diagnosis::problem(
                "hooks",
                format!("{message}; events are kept for {kept} h, so {will}"),
                format!(
                    "start a worker that has the hook, and see the log of the one that has it; or DELETE FROM \
                     \"{schema}\".hooks WHERE hook = '{}' if nobody is to be told any more",
                    hook.replace('\'', "''")
                ),
            ));
        }
        Ok(if found.is_empty() {
            vec![Diagnosis::ok("hooks", "no hook of ends is about to miss what is swept")]
        } else {
            found
        })
    }
}
