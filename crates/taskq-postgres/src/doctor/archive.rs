//! What stands in the archive's way.

use taskq_core::store::StoreError;
use tokio_postgres::types::Type;

use super::probe::Probe;
use super::{Diagnosis, Doctor};
use crate::codec::Columns;

impl Doctor {
    pub(super) async fn archive(&self, probe: &Probe) -> Result<Vec<Diagnosis>, StoreError> {
        let schema = probe.schema().as_str();
        let rows =
            probe.query(include_str!("../../sql/doctor/archive.sql"), &[(&schema, Type::TEXT)]).await?;
        let mut found = Vec::new();
        for row in &rows {
            let mut columns = Columns::of(row);
            let (kind, what, jobs): (String, String, i64) =
                (columns.read()?, columns.read()?, columns.read()?);
            found.push(match kind.as_str() {
                "detached" => Diagnosis::problem(
                    "archive",
                    format!("the table {what} is named as a partition of the archive and is none"),
                    format!(
                        "ALTER TABLE … ATTACH PARTITION \"{schema}\".{what} FOR VALUES FROM … TO … the bounds of its \
                         month by UTC; or give it another name"
                    ),
                ),
                "known" => Diagnosis::problem(
                    "archive",
                    format!("{jobs} finished jobs cannot be archived, as {what}: the archive has their ids already"),
                    "compare both sides, and DELETE the one that is wrong",
                ),
                _ => Diagnosis::problem(
                    "archive",
                    format!("{jobs} finished jobs were passed over by the archive, as {what}"),
                    "`taskq leader` says why; put that right",
                ),
            });
        }
        Ok(if found.is_empty() {
            vec![Diagnosis::ok("archive", "nothing stands in the archive's way")]
        } else {
            found
        })
    }
}
