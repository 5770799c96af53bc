//! Granting roles what they need, and looking at what they have.

use serde::Serialize;
use taskq_core::store::{SchemaProblem, StoreError};
use tokio_postgres::types::Type;

use super::Migrator;
use super::error::MigrateError;
use super::run::Link;
use crate::codec::{Columns, only};
use crate::rights::RoleKind;
use crate::rights::audit::{self, Flaw};
use crate::schema::SchemaName;

/// A role that was granted what its kind needs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GrantedRole {
    /// The role.
    pub role: String,
    /// What it is for.
    pub kind: RoleKind,
    /// What is wrong with it: what it lacks, that it is gone, or that grants do not bind it.
    pub problems: Vec<String>,
}

impl Migrator {
    /// Grants a role what its kind needs, and takes from it what it had of another kind. The role is noted: later versions
    /// grant it what they need more as they are applied. Safe to repeat.
    ///
    /// # Errors
    /// [`MigrateError::Store`] with [`StoreError::Invalid`] for a role that does not exist or that no grant binds (a
    /// superuser, the owner), with [`StoreError::Denied`] when the connection's role does not own the schema, with
    /// [`StoreError::Schema`] when the schema is missing or too old.
    ///
    /// # Cancel safety
    /// Safe to drop: all of it is granted, or nothing.
    pub async fn grant(&self, role: &str, kind: RoleKind) -> Result<(), MigrateError> {
        let call = "SELECT \"{schema}\".grant_role($1, $2)";
        let link = self.owner().await?;
        link.query(&self.schema.render(call), &[(&role, Type::TEXT), (&kind.as_str(), Type::TEXT)]).await?;
        link.unlock().await
    }

    /// Takes back what [`grant`](Self::grant) granted; false when the role was granted nothing.
    ///
    /// # Errors
    /// As [`grant`](Self::grant).
    ///
    /// # Cancel safety
    /// As [`grant`](Self::grant).
    pub async fn revoke(&self, role: &str) -> Result<bool, MigrateError> {
        let call = "SELECT \"{schema}\".revoke_role($1)";
        let link = self.owner().await?;
        let rows = link.query(&self.schema.render(call), &[(&role, Type::TEXT)]).await?;
        link.unlock().await?;
        Ok(Columns::of(only(&rows)?).read()?)
    }

    /// Lists the roles that were granted something, by name, with what is wrong with each.
    ///
    /// # Errors
    /// [`MigrateError::Store`] when the database cannot be asked.
    ///
    /// # Cancel safety
    /// Safe to drop: it changes nothing.
    pub async fn grants(&self) -> Result<Vec<GrantedRole>, MigrateError> {
        let link = Link::open(&self.dsn, &self.schema).await?;
        if !link.state().await?.has_ledger {
            return Err(missing(&self.schema).into());
        }
        let schema = self.schema.as_str();
        let mut noted = audit::read_roles(
            &link.query(&self.schema.render(audit::ROLES), &[(&schema, Type::TEXT)]).await?,
        )?;
        // The session's own.
        noted.pop();
        let roles: Vec<&str> = noted.iter().map(|noted| noted.role.as_str()).collect();
        let kinds: Vec<_> = noted.iter().map(|noted| noted.kind.map(RoleKind::as_str)).collect();
        let (objects, names, of) = audit::lists();
        let rows = link
            .query(
                audit::GRANTS,
                &[
                    (&schema, Type::TEXT),
                    (&roles, Type::TEXT_ARRAY),
                    (&kinds, Type::TEXT_ARRAY),
                    (&objects, Type::TEXT_ARRAY),
                    (&names, Type::TEXT_ARRAY),
                    (&of, Type::TEXT_ARRAY),
                ],
            )
            .await?;
        let flaws = audit::read_flaws(&rows)?;
        let mut granted: Vec<_> = noted
            .into_iter()
            .filter_map(|noted| {
                let mut problems: Vec<_> =
                    flaws.iter().filter_map(|flaw| of_role(flaw, &noted.role)).collect();
                match noted.stands {
                    Some(true) => {}
                    Some(false) => problems.push("there is no such role any more".to_owned()),
                    None => problems
                        .push("it is a superuser or may act as the owner: no grant binds it".to_owned()),
                }
                Some(GrantedRole { role: noted.role, kind: noted.kind?, problems })
            })
            .collect();
        granted.sort_by(|left, right| left.role.cmp(&right.role));
        Ok(granted)
    }

    /// A connection that may grant, with the lock that keeps migrations away.
    async fn owner(&self) -> Result<Link, MigrateError> {
        let link = Link::open(&self.dsn, &self.schema).await?;
        let sql = "SELECT pg_catalog.pg_has_role(n.nspowner, 'USAGE'), pg_catalog.pg_get_userbyid(n.nspowner)
            FROM pg_catalog.pg_namespace n WHERE n.nspname = $1";
        let rows = link.query(sql, &[(&self.schema.as_str(), Type::TEXT)]).await?;
        let row = rows.first().ok_or_else(|| missing(&self.schema))?;
        let mut columns = Columns::of(row);
        let (owns, owner): (bool, String) = (columns.read()?, columns.read()?);
        if !owns {
            return Err(not_the_owner(&owner, self.schema.as_str()).into());
        }
        link.check_session()?;
        link.lock(self.patience).await?;
        Ok(link)
    }
}

fn of_role(flaw: &Flaw, name: &str) -> Option<String> {
    match flaw {
        Flaw::Lacks { role, what } if role == name => Some(format!("lacks {what}")),
        _ => None,
    }
}

fn missing(schema: &SchemaName) -> StoreError {
    StoreError::Schema(SchemaProblem::Missing { schema: schema.to_string() })
}

fn not_the_owner(owner: &str, schema: &str) -> StoreError {
    StoreError::Denied {
        missing: format!("the rights of \"{owner}\", which owns the schema \"{schema}\""),
        remedy: format!("connect as \"{owner}\", or as a superuser"),
    }
}
