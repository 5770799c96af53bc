//! Which roles were granted what, and whether it is what they need: two questions to the catalog, and how they are read.

use taskq_core::store::StoreError;
use tokio_postgres::Row;

use super::{RoleKind, rights};
use crate::codec::Columns;

/// Asks for the noted roles and the session's own. The schema is `$1`.
pub(crate) const ROLES: &str = include_str!("../../sql/doctor/roles.sql");
/// Asks what is not as it should be. The schema, then the roles with their kinds, then what [`lists`] gives.
pub(crate) const GRANTS: &str = include_str!("../../sql/doctor/grants.sql");

/// A role that was granted something, or the session's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Noted {
    pub(crate) role: String,
    pub(crate) kind: Option<RoleKind>,
    /// False when the role is gone, none when grants do not bind it.
    pub(crate) stands: Option<bool>,
}

/// Reads the roles; the session's own comes last.
pub(crate) fn read_roles(rows: &[Row]) -> Result<Vec<Noted>, StoreError> {
    rows.iter()
        .map(|row| {
            let mut columns = Columns::of(row);
            let role = columns.read()?;
            let kind = columns.read::<Option<String>>()?.map(|kind| kind.parse()).transpose()?;
            Ok(Noted { role, kind, stands: columns.read()? })
        })
        .collect()
}

/// Something that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Flaw {
    /// A role lacks what its kind needs.
    Lacks { role: String, what: String },
    /// Everybody may do it.
    Public { what: String },
    /// It belongs to another role than the schema does.
    Owner { owner: String, other: String, object: String },
}

/// Reads the flaws.
pub(crate) fn read_flaws(rows: &[Row]) -> Result<Vec<Flaw>, StoreError> {
    rows.iter()
        .map(|row| {
            let mut columns = Columns::of(row);
            let (finding, role): (String, String) = (columns.read()?, columns.read()?);
            let (privilege, object): (String, String) = (columns.read()?, columns.read()?);
            Ok(match finding.as_str() {
                "lacks" => Flaw::Lacks { role, what: format!("{privilege} on {object}") },
                "public" => Flaw::Public { what: format!("{privilege} on {object}") },
                _ => Flaw::Owner { owner: role, other: privilege, object },
            })
        })
        .collect()
}

/// The list of rights as three arrays: objects, names, kinds.
pub(crate) fn lists() -> (Vec<&'static str>, Vec<&'static str>, Vec<String>) {
    let kinds = |kinds: &[RoleKind]| kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(",");
    (
        rights().iter().map(|right| right.object).collect(),
        rights().iter().map(|right| right.name).collect(),
        rights().iter().map(|right| kinds(&right.kinds)).collect(),
    )
}
