//! The server and the way to it.

use std::time::Duration;

use taskq_core::store::StoreError;
use tokio_postgres::types::Type;

use super::probe::Probe;
use super::{Diagnosis, Doctor};
use crate::codec::{Columns, Interval, Time, only};
use crate::rights::RoleKind;
use crate::rights::audit::{self, Flaw, Noted};

/// How many privileges are named.
const NAMED: usize = 5;

impl Doctor {
    pub(super) async fn grants(&self, probe: &Probe) -> Result<Vec<Diagnosis>, StoreError> {
        let noted = roles(probe).await?;
        // A role that was granted nothing by name is judged as what needs most.
        let judged: Vec<_> = noted
            .iter()
            .map(|noted| (noted.role.as_str(), noted.kind.unwrap_or(RoleKind::Worker).as_str()))
            .collect();
        let (names, kinds): (Vec<&str>, Vec<&str>) = judged.iter().copied().unzip();
        let flaws = flaws(probe, &names, &kinds).await?;
        let mut found = Vec::new();
        let own = noted.last().map(|noted| noted.role.as_str());
        let mut told: Vec<&str> = Vec::new();
        for (role, kind) in judged {
            let missing: Vec<&str> = flaws.iter().filter_map(|flaw| lacks(flaw, role)).collect();
            if missing.is_empty() || told.contains(&role) {
                continue;
            }
            told.push(role);
            let who = if own == Some(role) { "the role" } else { "the granted role" };
            found.push(Diagnosis::problem(
                "grants",
                format!("{who} {role} lacks {}, which a role of kind {kind} needs", some(&missing)),
                format!(
                    "as the owner: SELECT \"{}\".grant_role('{}', '{kind}')",
                    probe.schema(),
                    literal(role)
                ),
            ));
        }
        for gone in noted.iter().filter(|noted| noted.stands != Some(true)) {
            let role = &gone.role;
            let (what, then) = if gone.stands.is_some() {
                ("is gone", "")
            } else {
                (
                    "is a superuser or may act as the schema's owner, so grants do not bind it",
                    ", or take that from it",
                )
            };
            found.push(Diagnosis::problem(
                "grants",
                format!("the granted role {role} {what}"),
                format!("as the owner: SELECT \"{}\".revoke_role('{}'){then}", probe.schema(), literal(role)),
            ));
        }
        found.extend(ownership(&flaws, probe));
        Ok(or_ok(found, || {
            Diagnosis::ok("grants", "the role, and every granted one, may do what its kind does")
        }))
    }

    pub(super) async fn isolation(&self, probe: &Probe) -> Result<Vec<Diagnosis>, StoreError> {
        let session = session(probe).await?;
        let mut found = Vec::new();
        if session.isolation != "read committed" {
            found.push(Diagnosis::problem(
                "isolation",
                format!(
                    "sessions of {} start in {}, in which claims, settles and sweeps of other programs are refused",
                    session.role, session.isolation
                ),
                format!(
                    "ALTER DATABASE \"{}\" SET default_transaction_isolation = 'read committed', and likewise ALTER \
                     ROLE \"{}\"",
                    session.database, session.role
                ),
            ));
        }
        if session.read_only {
            found.push(Diagnosis::problem(
                "isolation",
                format!("sessions of {} may only read", session.role),
                format!(
                    "ALTER DATABASE \"{}\" RESET default_transaction_read_only, and likewise ALTER ROLE \"{}\"; or \
                     connect to the primary",
                    session.database, session.role
                ),
            ));
        }
        Ok(or_ok(found, || Diagnosis::ok("isolation", "sessions start in read committed")))
    }

    /// A pooler in transaction mode lets one of its sessions serve somebody else while ours is idle.
    pub(super) async fn pooler(&self, probe: &Probe) -> Result<Vec<Diagnosis>, StoreError> {
        if !probe.is_pooled(&self.dsn).await? {
            return Ok(vec![Diagnosis::ok("pooler", "a session keeps its server process")]);
        }
        Ok(vec![Diagnosis::problem(
            "pooler",
            "the connection goes through a pooler that changes sessions between transactions: workers poll instead of \
             hearing wake-ups, and migrations are refused",
            "connect to the server itself, or to the pooler in session mode; at the least, migrate that way",
        )])
    }

    pub(super) async fn clock(&self, probe: &Probe) -> Result<Vec<Diagnosis>, StoreError> {
        let before = (self.clock)();
        let rows = probe.query("SELECT pg_catalog.clock_timestamp()", &[]).await?;
        let after = (self.clock)();
        let server = Columns::of(only(&rows)?).read::<Time>()?.0;
        // What the call took may lie on either side.
        let skew = if server > after {
            Duration::try_from(server.duration_since(after)).unwrap_or_default()
        } else {
            Duration::try_from(before.duration_since(server)).unwrap_or_default()
        };
        if skew <= self.limits.clock_skew {
            return Ok(vec![Diagnosis::ok("clock", "this machine's clock and the server's agree")]);
        }
        Ok(vec![Diagnosis::problem(
            "clock",
            format!("this machine's clock and the server's are {} s apart", skew.as_secs()),
            "set both by NTP; times that this machine computes, such as a deadline, are wrong by as much",
        )])
    }

    pub(super) async fn autovacuum(&self, probe: &Probe) -> Result<Vec<Diagnosis>, StoreError> {
        let session = session(probe).await?;
        let mut found = Vec::new();
        for (setting, is_on) in [("autovacuum", session.autovacuum), ("track_counts", session.track_counts)] {
            if !is_on {
                found.push(Diagnosis::problem(
                    "autovacuum",
                    format!("{setting} is off, so dead rows are never removed"),
                    format!("ALTER SYSTEM SET {setting} = on; SELECT pg_reload_conf()"),
                ));
            }
        }
        let schema = probe.schema().as_str();
        let sql = include_str!("../../sql/doctor/autovacuum.sql");
        for row in &probe.query(sql, &[(&schema, Type::TEXT)]).await? {
            let table: String = Columns::of(row).read()?;
            found.push(Diagnosis::problem(
                "autovacuum",
                format!("autovacuum is off for the table {table}"),
                format!("ALTER TABLE \"{schema}\".{table} RESET (autovacuum_enabled)"),
            ));
        }
        Ok(or_ok(found, || Diagnosis::ok("autovacuum", "autovacuum is on")))
    }

    pub(super) async fn dead_rows(&self, probe: &Probe) -> Result<Vec<Diagnosis>, StoreError> {
        let schema = probe.schema().as_str();
        let (rows, age) = (as_bigint(self.limits.dead_rows), Interval(self.limits.vacuum_age));
        let sql = include_str!("../../sql/doctor/dead_rows.sql");
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
            [(&schema, Type::TEXT), (&rows, Type::INT8), (&age, Type::INTERVAL)];
        let mut found = Vec::new();
        for row in &probe.query(sql, &params).await? {
            let mut columns = Columns::of(row);
            let (table, dead, live): (String, i64, i64) = (columns.read()?, columns.read()?, columns.read()?);
            let last = columns.read::<Option<Time>>()?;
            let last = last.map_or_else(|| "never".to_owned(), |time| format!("last at {}", time.0));
            found.push(Diagnosis::problem(
                "dead_rows",
                format!("{table} has {dead} dead rows beside {live} live ones; vacuumed {last}"),
                format!(
                    "end what holds them back, as the checks of transactions and slots name it, then VACUUM \
                     \"{schema}\".{table}"
                ),
            ));
        }
        Ok(or_ok(found, || Diagnosis::ok("dead_rows", "dead rows are removed")))
    }

    pub(super) async fn transactions(&self, probe: &Probe) -> Result<Vec<Diagnosis>, StoreError> {
        let age = Interval(self.limits.transaction_age);
        let sql = include_str!("../../sql/doctor/transactions.sql");
        let mut found = Vec::new();
        for row in &probe.query(sql, &[(&age, Type::INTERVAL)]).await? {
            let mut columns = Columns::of(row);
            let pid: i32 = columns.read()?;
            let role = columns.read::<Option<String>>()?.unwrap_or_default();
            let application = columns.read::<Option<String>>()?.unwrap_or_default();
            let state = columns.read::<Option<String>>()?.unwrap_or_default();
            let _start: Option<Time> = columns.read()?;
            let open_for = columns.read::<Interval>()?.0;
            found.push(Diagnosis::problem(
                "transactions",
                format!(
                    "the session {pid} of {role} ({application:?}, {state}) has had a transaction open for {} s: \
                     dead rows are kept and events are held back",
                    open_for.as_secs()
                ),
                format!("commit or end it, or SELECT pg_terminate_backend({pid})"),
            ));
        }
        if found.is_empty() && !session(probe).await?.sees_all {
            return Ok(vec![Diagnosis::unknown(
                "transactions",
                "no old transaction of this role; sessions of other roles cannot be seen",
                Some("examine as a role that is a member of pg_read_all_stats".to_owned()),
            )]);
        }
        Ok(or_ok(found, || Diagnosis::ok("transactions", "no transaction is open for long")))
    }

    pub(super) async fn prepared(&self, probe: &Probe) -> Result<Vec<Diagnosis>, StoreError> {
        let age = Interval(self.limits.transaction_age);
        let sql = include_str!("../../sql/doctor/prepared.sql");
        let mut found = Vec::new();
        for row in &probe.query(sql, &[(&age, Type::INTERVAL)]).await? {
            let mut columns = Columns::of(row);
            let (gid, owner): (String, String) = (columns.read()?, columns.read()?);
            let waited = columns.read::<Interval>()?.0;
            found.push(Diagnosis::problem(
                "prepared",
                format!(
                    "the prepared transaction '{gid}' of {owner} has waited for {} s: dead rows are kept and events \
                     are held back",
                    waited.as_secs()
                ),
                format!("COMMIT PREPARED '{gid}' or ROLLBACK PREPARED '{gid}'"),
            ));
        }
        Ok(or_ok(found, || Diagnosis::ok("prepared", "no prepared transaction waits for long")))
    }

    pub(super) async fn slots(&self, probe: &Probe) -> Result<Vec<Diagnosis>, StoreError> {
        let bytes = as_bigint(self.limits.slot_bytes);
        let sql = include_str!("../../sql/doctor/slots.sql");
        let mut found = Vec::new();
        for row in &probe.query(sql, &[(&bytes, Type::INT8)]).await? {
            let mut columns = Columns::of(row);
            let (slot, keeps_rows, kept): (String, bool, i64) =
                (columns.read()?, columns.read()?, columns.read()?);
            let what = if keeps_rows { "dead rows and " } else { "" };
            found.push(Diagnosis::problem(
                "slots",
                format!(
                    "nobody reads the replication slot {slot}, which keeps {what}{} MiB of the write-ahead log",
                    kept >> 20
                ),
                format!("start its reader, or SELECT pg_drop_replication_slot('{slot}')"),
            ));
        }
        Ok(or_ok(found, || Diagnosis::ok("slots", "no replication slot keeps what nobody reads")))
    }

    pub(super) async fn events(&self, probe: &Probe) -> Result<Vec<Diagnosis>, StoreError> {
        let rows = probe.query(include_str!("../../sql/doctor/foreign_events.sql"), &[]).await?;
        if Columns::of(only(&rows)?).read::<Option<bool>>()? != Some(true) {
            return Ok(vec![Diagnosis::ok("events", "events can be told in order")]);
        }
        Ok(vec![Diagnosis::problem(
            "events",
            "events carry transaction ids that this server has not reached, as after a dump of another one was \
             restored: the feed stands still",
            format!("UPDATE \"{}\".job_events SET xid = '0'", probe.schema().as_str()),
        )])
    }
}

/// What a session that sets nothing gets.
#[expect(clippy::struct_excessive_bools, reason = "each is one fact of the server, as its row gives them")]
struct Session {
    isolation: String,
    read_only: bool,
    autovacuum: bool,
    track_counts: bool,
    role: String,
    database: String,
    sees_all: bool,
}

/// The granted roles and then the session's own, which may not even be allowed to look at the list.
async fn roles(probe: &Probe) -> Result<Vec<Noted>, StoreError> {
    let schema = probe.schema().as_str();
    match probe.query(audit::ROLES, &[(&schema, Type::TEXT)]).await {
        Ok(rows) => audit::read_roles(&rows),
        // Whether the schema fits is told by another check.
        Err(StoreError::Denied { .. } | StoreError::Schema(_)) => {
            let rows = probe.query("SELECT current_user::text", &[]).await?;
            let role = Columns::of(only(&rows)?).read()?;
            Ok(vec![Noted { role, kind: None, stands: Some(true) }])
        }
        Err(error) => Err(error),
    }
}

async fn flaws(probe: &Probe, roles: &[&str], kinds: &[&str]) -> Result<Vec<Flaw>, StoreError> {
    let (objects, names, of) = audit::lists();
    let rows = probe
        .query(
            audit::GRANTS,
            &[
                (&probe.schema().as_str(), Type::TEXT),
                (&roles, Type::TEXT_ARRAY),
                (&kinds, Type::TEXT_ARRAY),
                (&objects, Type::TEXT_ARRAY),
                (&names, Type::TEXT_ARRAY),
                (&of, Type::TEXT_ARRAY),
            ],
        )
        .await?;
    audit::read_flaws(&rows)
}

fn lacks<'a>(flaw: &'a Flaw, name: &str) -> Option<&'a str> {
    match flaw {
        Flaw::Lacks { role, what } if role == name => Some(what),
        _ => None,
    }
}

/// What everybody may, and what belongs to somebody else.
fn ownership(flaws: &[Flaw], probe: &Probe) -> Vec<Diagnosis> {
    let public: Vec<&str> = flaws
        .iter()
        .filter_map(|flaw| if let Flaw::Public { what } = flaw { Some(what.as_str()) } else { None })
        .collect();
    let mut found = Vec::new();
    if let Some(first) = public.first() {
        found.push(Diagnosis::problem(
            "grants",
            format!("every role of the server has {}", some(&public)),
            format!("as the owner: REVOKE {first} FROM PUBLIC"),
        ));
    }
    let foreign = flaws.iter().find_map(|flaw| match flaw {
        Flaw::Owner { owner, other, object } => Some((owner, other, object)),
        _ => None,
    });
    if let Some((owner, other, object)) = foreign {
        found.push(Diagnosis::problem(
            "grants",
            format!("{object} belongs to {other}, and the schema \"{}\" to {owner}", probe.schema()),
            format!("ALTER {object} OWNER TO \"{owner}\": functions run with their owner's rights"),
        ));
    }
    found
}

/// Names the first few.
fn some(all: &[&str]) -> String {
    let more = all.len().saturating_sub(NAMED);
    let named = all[..all.len() - more].join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

/// A text inside a SQL literal.
fn literal(text: &str) -> String {
    text.replace('\'', "''")
}

async fn session(probe: &Probe) -> Result<Session, StoreError> {
    let rows = probe.query(include_str!("../../sql/doctor/session.sql"), &[]).await?;
    let mut columns = Columns::of(only(&rows)?);
    Ok(Session {
        isolation: columns.read()?,
        read_only: columns.read()?,
        autovacuum: columns.read()?,
        track_counts: columns.read()?,
        role: columns.read()?,
        database: columns.read()?,
        sees_all: columns.read()?,
    })
}

fn or_ok(found: Vec<Diagnosis>, ok: impl FnOnce() -> Diagnosis) -> Vec<Diagnosis> {
    if found.is_empty() { vec![ok()] } else { found }
}

fn as_bigint(limit: u64) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
