//! What each connection is for, and the settings its statements run under.

use std::fmt::Write as _;
use std::time::Duration;

/// Settings of every session, whatever the role's and the database's defaults are.
const SETTINGS: &[(&str, &str)] = &[
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    ("default_transaction_deferrable", "off"),
    ("idle_session_timeout", "0"),
];

/// Settings of every session and of every transaction by itself.
const COMMON: &[(&str, &str)] = &[
    ("idle_in_transaction_session_timeout", "60s"),
    // A schema that comes before `pg_catalog` could have types and operators of the same names.
    ("search_path", "pg_catalog"),
    ("standard_conforming_strings", "on"),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
];

/// How statements are planned, as in the functions: a scan of the whole table is never what a query of ours
/// wants, and statistics that are missing or stale must not choose it. Migrations plan for themselves.
const PLANNER: &[(&str, &str)] = &[
    ("jit", "off"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_indexscan", "on"),
    ("enable_indexonlyscan", "on"),
    ("enable_nestloop", "on"),
    ("enable_sort", "on"),
];

/// What a connection is for. Each role has one connection of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Enqueues and queries.
    Client,
    /// Claims, and hears what is to be claimed: a server process that has just passed a notification on is quick to claim.
    Claim,
    /// Settles.
    Settle,
    /// Sessions, heartbeats and comparisons.
    Control,
    /// The leader's sweeps.
    Sweep,
    /// Migrations.
    Migrate,
    /// Looking at what any session gets: nothing is set.
    Doctor,
}

impl Role {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Claim => "claim",
            Self::Settle => "settle",
            Self::Control => "control",
            Self::Sweep => "sweep",
            Self::Migrate => "migrate",
            Self::Doctor => "doctor",
        }
    }

    /// How long the server works on one statement before it gives up; zero is for ever.
    const fn statement_timeout(self) -> Duration {
        match self {
            Self::Client | Self::Settle | Self::Doctor => Duration::from_mins(1),
            Self::Claim => Duration::from_secs(20),
            // Several beats must fit into a lease.
            Self::Control => Duration::from_secs(10),
            Self::Sweep => Duration::from_secs(30),
            Self::Migrate => Duration::ZERO,
        }
    }

    /// How long one statement waits for a lock of somebody else before it gives up; zero is for ever. Calls behind it on
    /// the same connection wait as long.
    const fn lock_timeout(self) -> Duration {
        match self {
            // A row that an open transaction holds must not hold up the outcomes of others.
            Self::Settle => Duration::from_secs(1),
            Self::Client | Self::Control | Self::Doctor => Duration::from_secs(5),
            Self::Claim => Duration::from_secs(10),
            Self::Sweep => Duration::from_secs(15),
            Self::Migrate => Duration::ZERO,
        }
    }

    /// How long one call may take before its connection counts as dead: longer than the server would.
    pub(crate) fn deadline(self) -> Duration {
        self.statement_timeout() + Duration::from_secs(5)
    }

    fn timeouts(self) -> [(&'static str, String); 2] {
        [
            ("statement_timeout", self.statement_timeout().as_millis().to_string()),
            ("lock_timeout", self.lock_timeout().as_millis().to_string()),
        ]
    }

    fn planner(self) -> &'static [(&'static str, &'static str)] {
        if self == Self::Migrate { &[] } else { PLANNER }
    }

    /// The settings as a session can start with them, for the startup packet.
    pub(crate) fn startup_options(self) -> String {
        let mut options = String::new();
        for (name, value) in SETTINGS.iter().chain(COMMON).chain(self.planner()) {
            let _ = write!(options, " -c {name}={}", value.replace(' ', "\\ "));
        }
        for (name, value) in self.timeouts() {
            let _ = write!(options, " -c {name}={value}");
        }
        options
    }

    /// The settings as statements, for a session that could not start with them.
    pub(crate) fn session_settings(self, major: u32) -> String {
        let mut sql = String::new();
        for (name, value) in SETTINGS.iter().chain(COMMON).chain(self.planner()) {
            let _ = write!(sql, "SET {name} = '{value}'; ");
        }
        for (name, value) in self.timeouts() {
            let _ = write!(sql, "SET {name} = {value}; ");
        }
        sql.push_str(late_settings(major).unwrap_or_default());
        sql
    }

    /// The start of a transaction that stands by itself, whatever session it meets; `limit` in place of the role's own time
    /// limit for a statement. One statement sets all, so that a call costs few.
    pub(crate) fn transaction_start(self, major: u32, limit: Option<Duration>) -> String {
        // Compiling what sets it off would take longer than all the rest.
        let mut sql =
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL jit = off; SELECT".to_owned();
        let mut set = |name: &str, value: &str| {
            let comma = if sql.ends_with("SELECT") { "" } else { "," };
            let _ = write!(sql, "{comma} pg_catalog.set_config('{name}', '{value}', true)");
        };
        for (name, value) in COMMON.iter().chain(self.planner()) {
            set(name, value);
        }
        let limit = limit.map(|limit| limit.as_millis().max(1).to_string());
        let [(statement_timeout, own), (lock_timeout, wait)] = self.timeouts();
        set(statement_timeout, limit.as_deref().unwrap_or(&own));
        set(lock_timeout, &wait);
        if late_settings(major).is_some() {
            set("transaction_timeout", "0");
        }
        sql
    }
}

/// Settings that older servers do not know, so that they cannot travel with the start of the session.
pub(crate) const fn late_settings(major: u32) -> Option<&'static str> {
    if major >= 17 { Some("SET transaction_timeout = 0") } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_made_in_each_way() {
        let role = Role::Claim;
        let (startup, session, transaction) =
            (role.startup_options(), role.session_settings(18), role.transaction_start(18, None));
        for (name, value) in COMMON.iter().chain(PLANNER) {
            assert!(startup.contains(&format!(" -c {name}={}", value.replace(' ', "\\ "))), "{startup}");
            assert!(session.contains(&format!("SET {name} = '{value}'")), "{session}");
            assert!(transaction.contains(&format!("set_config('{name}', '{value}', true)")), "{transaction}");
        }
        for (name, value) in [("statement_timeout", "20000"), ("lock_timeout", "10000")] {
            assert!(startup.contains(&format!(" -c {name}={value}")), "{startup}");
            assert!(session.contains(&format!("SET {name} = {value}")), "{session}");
            assert!(transaction.contains(&format!("set_config('{name}', '{value}', true)")), "{transaction}");
        }
        assert!(session.ends_with("SET transaction_timeout = 0"), "{session}");
        assert!(!role.transaction_start(16, None).contains("transaction_timeout"));
        let limited = role.transaction_start(18, Some(Duration::from_micros(1)));
        assert!(limited.contains("set_config('statement_timeout', '1', true)"), "{limited}");
    }
}
