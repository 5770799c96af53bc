//! What kinds of roles there are, what each may do, and what to say to one that may not.
//!
//! The list itself is the SQL function `rights`, which grants are made from; its text is read here, so that it stands in one
//! place and can be told to a role that may not even call it.

pub(crate) mod audit;

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use serde::Serialize;
use taskq_core::store::StoreError;

use crate::schema::SchemaName;

/// What a role of the server is for; see `docs/design/roles.md`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RoleKind {
    /// Enqueues jobs, and sees nothing of them.
    EnqueueOnly,
    /// Looks at everything, and changes nothing.
    ReadOnly,
    /// Runs jobs and leads; enqueues, looks, cancels and retries jobs, pauses and resumes lanes.
    Worker,
    /// Looks, enqueues, cancels, retries, pauses and resumes; sets queues and settings. Runs no jobs.
    Operator,
}

impl RoleKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::EnqueueOnly, Self::ReadOnly, Self::Worker, Self::Operator];

    /// Returns the word that SQL and the command line use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EnqueueOnly => "enqueue-only",
            Self::ReadOnly => "read-only",
            Self::Worker => "worker",
            Self::Operator => "operator",
        }
    }
}

impl fmt::Display for RoleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for RoleKind {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
            StoreError::invalid(format!(
                "{text:?} is not a kind of role: worker, enqueue-only, read-only or operator"
            ))
        })
    }
}

/// One line of the list: a privilege on an object, and who has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Right {
    /// `function` or `table`.
    pub(crate) object: &'static str,
    pub(crate) name: &'static str,
    pub(crate) kinds: Vec<RoleKind>,
}

/// The list.
pub(crate) fn rights() -> &'static [Right] {
    static RIGHTS: LazyLock<Vec<Right>> =
        LazyLock::new(|| include_str!("../../sql/functions/rights.sql").lines().filter_map(read).collect());
    &RIGHTS
}

/// Reads a line like `('table', 'jobs', '{read-only,worker}'),`.
fn read(line: &'static str) -> Option<Right> {
    let mut quoted = line.trim().strip_prefix('(')?.split('\'').skip(1).step_by(2);
    let (object, name, kinds) = (quoted.next()?, quoted.next()?, quoted.next()?);
    let kinds = kinds.trim_matches(['{', '}']).split(',').filter_map(|kind| kind.parse().ok()).collect();
    Some(Right { object, name, kinds })
}

/// Types what PostgreSQL says to a role that lacks a privilege.
pub(crate) fn denied(message: &str, schema: &SchemaName) -> StoreError {
    let named = |object: &str| {
        let rest = message.strip_prefix("permission denied for ")?.strip_prefix(object)?;
        rest.strip_prefix(' ').filter(|name| !name.is_empty())
    };
    // The option that a command line needs to find the schema.
    let option =
        if *schema == SchemaName::default() { String::new() } else { format!(" --schema '{schema}'") };
    let grant = |kinds: &[RoleKind]| {
        let kinds: Vec<_> = kinds.iter().map(|kind| kind.as_str()).collect();
        format!("as the schema's owner: `taskq migrate grant{option} {} ROLE`", kinds.join("|"))
    };
    if named("schema").is_some() {
        let missing = format!("USAGE on schema \"{schema}\"");
        return StoreError::Denied { missing, remedy: grant(&RoleKind::ALL) };
    }
    let found =
        named("function").map(|name| ("function", name)).or(named("table").map(|name| ("table", name)));
    let Some((object, name)) = found else {
        // The server speaks another language, or means something that is none of the schema's objects.
        let missing = format!("a privilege ({message})");
        return StoreError::Denied { missing, remedy: grant(&RoleKind::ALL) };
    };
    let right = rights().iter().find(|right| right.object == object && right.name == name);
    let privilege = if object == "table" { "SELECT" } else { "EXECUTE" };
    let missing = format!("{privilege} on {object} \"{schema}\".{name}");
    let remedy =
        right.map_or_else(|| "that is the schema's owner's alone".to_owned(), |right| grant(&right.kinds));
    StoreError::Denied { missing, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_whole() {
        let rows = include_str!("../../sql/functions/rights.sql").matches("    ('").count();
        assert_eq!(rights().len(), rows);
        let jobs = rights().iter().find(|right| (right.object, right.name) == ("table", "jobs")).unwrap();
        assert_eq!(jobs.kinds, [RoleKind::Operator, RoleKind::ReadOnly, RoleKind::Worker]);
        for right in rights() {
            assert!(!right.kinds.is_empty(), "{right:?}");
            assert!(right.kinds.is_sorted_by_key(|kind| kind.as_str()), "{right:?}");
        }
    }

    #[test]
    fn what_is_denied_names_the_grant_and_who_has_it() {
        let schema = SchemaName::default();
        let say = |message, schema: &SchemaName| denied(message, schema).to_string();
        assert_eq!(
            say("permission denied for function claim_slots", &schema),
            "permission denied: the role of this connection lacks EXECUTE on function \"taskq\".claim_slots; as the \
             schema's owner: `taskq migrate grant worker ROLE`"
        );
        let other = SchemaName::new("jobs").unwrap();
        let text = say("permission denied for schema jobs", &other);
        assert!(
            text.contains("USAGE on schema \"jobs\"") && text.contains("grant --schema 'jobs'"),
            "{text}"
        );
        let text = say("permission denied for table jobs", &schema);
        assert!(text.contains("SELECT on table") && text.contains("operator|read-only|worker"), "{text}");
        let text = say("permission denied for function grant_role", &schema);
        assert!(text.contains("owner's alone"), "{text}");
        let text = say("keine Berechtigung für Tabelle jobs", &schema);
        assert!(text.contains("keine Berechtigung"), "{text}");
    }
}
