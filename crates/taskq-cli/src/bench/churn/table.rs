//! What the server says of a table.

use super::super::scene::{Scene, Session};
use crate::exit::Failure;

/// How large the table of jobs is.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Size {
    pub(super) heap: u64,
    pub(super) indexes: u64,
    pub(super) toast: u64,
}

impl Size {
    pub(super) async fn read(session: &Session) -> Result<Self, Failure> {
        let sizes = r#"
            SELECT pg_relation_size(c.oid), pg_indexes_size(c.oid),
                CASE WHEN c.reltoastrelid = 0 THEN 0 ELSE pg_total_relation_size(c.reltoastrelid) END
            FROM pg_class c WHERE c.oid = '"{schema}".jobs'::regclass"#;
        let row = session.one(sizes, &[]).await?;
        Ok(Self { heap: count(row.get(0)), indexes: count(row.get(1)), toast: count(row.get(2)) })
    }
}

/// What the server has counted of the table of jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    pub(super) dead_rows: u64,
    pub(super) vacuums: u64,
    pub(super) updates: u64,
    pub(super) hot_updates: u64,
}

impl Counters {
    pub(super) async fn read(session: &Session) -> Result<Self, Failure> {
        let counters = r#"
            SELECT s.n_dead_tup, s.autovacuum_count, s.n_tup_upd, s.n_tup_hot_upd
            FROM pg_stat_all_tables s WHERE s.relid = '"{schema}".jobs'::regclass"#;
        let row = session.one(counters, &[]).await?;
        Ok(Self {
            dead_rows: count(row.get(0)),
            vacuums: count(row.get(1)),
            updates: count(row.get(2)),
            hot_updates: count(row.get(3)),
        })
    }
}

/// What calls in a schema have cost.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Cost {
    /// WAL, full-page images included.
    pub(super) wal_bytes: u64,
    pub(super) claims: u64,
    /// Shared buffers that claims used.
    pub(super) claim_buffers: u64,
    /// Shared buffers that settles used.
    pub(super) settle_buffers: u64,
}

impl Cost {
    /// Reads it; `None` where the server does not count it.
    pub(super) async fn read(scene: &Scene, session: &Session) -> Result<Option<Self>, Failure> {
        let Some(statements) = scene.statements() else { return Ok(None) };
        let cost = format!(
            r#"SELECT coalesce(sum(s.wal_bytes), 0)::bigint,
                coalesce(sum(s.calls) FILTER (WHERE s.query LIKE '%.claim(%'), 0)::bigint,
                coalesce(sum(s.shared_blks_hit + s.shared_blks_read) FILTER (WHERE s.query LIKE '%.claim(%'), 0)::bigint,
                coalesce(sum(s.shared_blks_hit + s.shared_blks_read) FILTER (WHERE s.query LIKE '%.settle(%'), 0)::bigint
            FROM {statements} s WHERE s.toplevel AND position('"{{schema}}".' IN s.query) > 0"#
        );
        let row = session.one(&cost, &[]).await?;
        Ok(Some(Self {
            wal_bytes: count(row.get(0)),
            claims: count(row.get(1)),
            claim_buffers: count(row.get(2)),
            settle_buffers: count(row.get(3)),
        }))
    }

    /// What was added since.
    pub(super) const fn since(self, before: Self) -> Self {
        Self {
            wal_bytes: self.wal_bytes - before.wal_bytes,
            claims: self.claims - before.claims,
            claim_buffers: self.claim_buffers - before.claim_buffers,
            settle_buffers: self.settle_buffers - before.settle_buffers,
        }
    }
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
