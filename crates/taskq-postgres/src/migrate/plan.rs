//! What would be run, as SQL: `up` runs it, `sql` prints it.

use std::fmt::Write as _;

use serde::Serialize;
use taskq_core::store::SchemaProblem;

use super::error::MigrateError;
use super::ledger::{Entry, FUNCTION, FUNCTIONS, FunctionsState, functions_state, unknown};
use super::set::{Migration, MigrationSet, Phase};
use super::text::{index_built, is_concurrent, statements};
use crate::schema::SchemaName;

/// How long one statement waits for a lock before its file is rolled back and tried again. Whoever comes later waits behind
/// it as long, so that a file of several statements still holds nobody up for two seconds.
pub(super) const LOCK_TIMEOUT: &str = "500ms";

const CREATE_SCHEMA: &str = "CREATE SCHEMA IF NOT EXISTS \"{schema}\";\n";
const CREATE_LEDGER: &str = "\
-- What has been applied: migrations by file name, the function set, and each function as the server has it.
CREATE TABLE IF NOT EXISTS \"{schema}\".schema_migrations (
    version    text COLLATE \"C\" NOT NULL,
    phase      text COLLATE \"C\" NOT NULL,
    name       text COLLATE \"C\" NOT NULL,
    checksum   text COLLATE \"C\" NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    CONSTRAINT schema_migrations_pkey PRIMARY KEY (name)
);
";

/// What is there before a migration.
#[derive(Debug)]
pub(super) struct State {
    pub(super) has_schema: bool,
    pub(super) has_ledger: bool,
    pub(super) entries: Vec<Entry>,
    pub(super) major: u32,
}

/// How a step is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// All of it in one transaction.
    Transaction,
    /// Statement by statement, each by itself; run again from the start after a failure.
    Statements,
}

/// One thing that a migration does.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// The file, `functions` for the function set, `schema` for the schema with its ledger.
    pub name: String,
    /// How it is run.
    pub mode: Mode,
    /// What is done, entries in the ledger included.
    #[serde(skip)]
    pub(super) actions: Vec<Action>,
}

/// A part of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// SQL, as it stands.
    Run(String),
    /// Drops an index of that name if a build that was cut off left it: nothing uses it, and every write maintains it.
    DropInvalid(String),
}

impl Step {
    fn transaction(name: String, statements: Vec<String>) -> Self {
        let actions = statements.into_iter().map(Action::Run).collect();
        Self { name, mode: Mode::Transaction, actions }
    }
}

/// Decides what to run.
pub(super) fn plan(
    state: &State,
    set: &MigrationSet,
    schema: &SchemaName,
    phase: Option<Phase>,
) -> Result<Vec<Step>, MigrateError> {
    let newer =
        |detail: String| MigrateError::Newer(SchemaProblem::TooNew { schema: schema.to_string(), detail });
    if let Some(entry) = unknown(&state.entries, set).next() {
        return Err(newer(format!("it has {}", entry.name)));
    }
    let functions = functions_state(&state.entries, set, Some(state.major))?;
    if functions == FunctionsState::Newer {
        return Err(newer("its functions are of a later version".to_owned()));
    }
    let mut steps = Vec::new();
    if !state.has_ledger {
        let mut text = if state.has_schema { String::new() } else { CREATE_SCHEMA.to_owned() };
        text.push_str(CREATE_LEDGER);
        steps.push(Step::transaction("schema".to_owned(), vec![schema.render(&text)]));
    }
    let mut functions_are_due = functions != FunctionsState::Current && phase != Some(Phase::Post);
    let last_pre = set.migrations.iter().rposition(|migration| migration.phase == Phase::Pre);
    let mut missing_pre = None;
    for (at, migration) in set.migrations.iter().enumerate() {
        let applied = state.entries.iter().find(|entry| entry.name == migration.name);
        match applied {
            Some(entry) if entry.checksum != migration.checksum => {
                return Err(MigrateError::Drift { name: migration.name.clone() });
            }
            Some(_) => {}
            None if phase.is_some_and(|phase| phase != migration.phase) => {
                if migration.phase == Phase::Pre {
                    missing_pre = missing_pre.or(Some(migration.name.as_str()));
                }
            }
            None => {
                if migration.phase == Phase::Post && phase == Some(Phase::Post) {
                    let outdated = functions != FunctionsState::Current;
                    let missing = missing_pre.or_else(|| outdated.then_some("the functions"));
                    if let Some(pre) = missing {
                        let (post, pre) = (migration.name.clone(), pre.to_owned());
                        return Err(MigrateError::PostBeforePre { post, pre });
                    }
                }
                steps.push(of_migration(migration, schema));
            }
        }
        // Functions need every `pre` migration, and the last `post` ones may need the functions.
        if Some(at) == last_pre && std::mem::take(&mut functions_are_due) {
            steps.push(of_functions(set, schema));
        }
    }
    if functions_are_due {
        steps.push(of_functions(set, schema));
    }
    Ok(steps)
}

fn of_migration(migration: &Migration, schema: &SchemaName) -> Step {
    let text = schema.render(&migration.sql);
    let entry = format!(
        "INSERT INTO \"{schema}\".schema_migrations (version, phase, name, checksum)\nVALUES ('{}', '{}', '{}', '{}');\n",
        migration.version, migration.phase, migration.name, migration.checksum
    );
    let name = migration.name.clone();
    if migration.is_transactional() {
        return Step::transaction(name, vec![text, entry]);
    }
    let mut actions = Vec::new();
    for statement in statements(&text) {
        // What is done concurrently waits for every old transaction, and holds up nobody meanwhile.
        let waits = if is_concurrent(&statement) { "0" } else { LOCK_TIMEOUT };
        actions.push(Action::Run(format!("SET lock_timeout = '{waits}';\n")));
        actions.extend(index_built(&statement).map(|index| Action::DropInvalid(index.to_owned())));
        actions.push(Action::Run(statement + ";\n"));
    }
    actions.push(Action::Run(entry));
    Step { name, mode: Mode::Statements, actions }
}

/// The function set: applied whole, then looked at by PostgreSQL's own validators, since a function may call
/// one that is created after it.
fn of_functions(set: &MigrationSet, schema: &SchemaName) -> Step {
    let mut texts = vec!["SET LOCAL check_function_bodies = off;\n".to_owned()];
    texts.extend(set.functions.iter().map(|function| schema.render(&function.sql)));
    let names: Vec<_> = set.functions.iter().map(|function| format!("'{}'", function.name)).collect();
    let names = if names.is_empty() { "NULL".to_owned() } else { names.join(", ") };
    let of_ours = format!(
        "FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
JOIN pg_catalog.pg_language l ON l.oid = p.prolang
WHERE n.nspname = '{schema}' AND p.prokind = 'f' AND p.proname IN ({names})"
    );
    texts.push("SET LOCAL check_function_bodies = on;\n".to_owned());
    for (language, validator) in [("plpgsql", "plpgsql_validator"), ("sql", "fmgr_sql_validator")] {
        texts
            .push(format!("SELECT pg_catalog.{validator}(p.oid)\n{of_ours} AND l.lanname = '{language}';\n"));
    }
    texts.push(revoke_public(schema, &of_ours));
    if set.functions.iter().any(|function| function.name == RENEW_GRANTS) {
        texts.push(format!("SELECT \"{schema}\".{RENEW_GRANTS}();\n"));
    }
    let mut ledger = String::new();
    let _ = write!(
        ledger,
        "DELETE FROM \"{schema}\".schema_migrations WHERE phase IN ('{FUNCTIONS}', '{FUNCTION}');
INSERT INTO \"{schema}\".schema_migrations (version, phase, name, checksum)
SELECT '{version}', '{FUNCTIONS}', 'functions',
    '{checksum}@' || pg_catalog.current_setting('server_version_num')::integer / 10000;
INSERT INTO \"{schema}\".schema_migrations (version, phase, name, checksum)
SELECT '{version}', '{FUNCTION}', {SIGNATURE}, {DEFINITION}
{of_ours};
",
        version = set.version,
        checksum = set.functions_checksum(),
    );
    texts.push(ledger);
    Step::transaction("functions".to_owned(), texts)
}

/// Grants anew what roles were granted before; what is new among it included.
const RENEW_GRANTS: &str = "renew_grants";

/// Takes from everybody what PostgreSQL gives to everybody with a new function, and the use of the schema: of functions of
/// ours only, since others may keep theirs beside them; and not of `public`, which others use.
fn revoke_public(schema: &SchemaName, of_ours: &str) -> String {
    format!(
        "DO $revoke$
DECLARE
    routine text;
BEGIN
    FOR routine IN
        SELECT pg_catalog.format('%I.%I(%s)', n.nspname, p.proname, pg_catalog.pg_get_function_identity_arguments(p.oid))
        {of_ours} AND (p.proacl IS NULL OR EXISTS (SELECT FROM pg_catalog.aclexplode(p.proacl) a WHERE a.grantee = 0))
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', routine);
    END LOOP;
    IF '{schema}' <> 'public' AND EXISTS (
        SELECT FROM pg_catalog.pg_namespace n CROSS JOIN LATERAL pg_catalog.aclexplode(n.nspacl) a
        WHERE n.nspname = '{schema}' AND a.grantee = 0
    ) THEN
        REVOKE ALL ON SCHEMA \"{schema}\" FROM PUBLIC;
    END IF;
END
$revoke$;
"
    )
}

/// A query for the statements that drop an index if it is invalid.
pub(super) fn drop_invalid(schema: &SchemaName, index: &str) -> String {
    format!(
        "SELECT pg_catalog.format('DROP INDEX CONCURRENTLY %I.%I', n.nspname, c.relname)
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = '{schema}' AND c.relname = '{index}' AND NOT i.indisvalid"
    )
}

/// How a function is named in the ledger.
pub(super) const SIGNATURE: &str =
    "p.proname || '(' || pg_catalog.pg_get_function_identity_arguments(p.oid) || ')'";
/// The hash of a function as the server has it.
pub(super) const DEFINITION: &str = "pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.pg_get_functiondef(p.oid), 'UTF8')), 'hex')";

/// Writes the steps as a script for `psql`.
pub(super) fn script(steps: &[Step], schema: &SchemaName, key: i64) -> String {
    if steps.is_empty() {
        return format!("-- Nothing to do: the schema \"{schema}\" is up to date.\n");
    }
    let mut out = format!(
        "-- Brings the schema \"{schema}\" up to date. For psql; each part commits by itself.
\\set ON_ERROR_STOP on
SET standard_conforming_strings = on;
SET client_min_messages = warning;
DO $lock$
BEGIN
    IF NOT pg_catalog.pg_try_advisory_lock({key}) THEN
        RAISE EXCEPTION 'another migration of the schema \"{schema}\" is running';
    END IF;
END
$lock$;
"
    );
    for step in steps {
        let _ = write!(out, "\n-- {}\n", step.name);
        let transaction = step.mode == Mode::Transaction;
        if transaction {
            let _ = write!(out, "BEGIN;\nSET LOCAL lock_timeout = '{LOCK_TIMEOUT}';\n");
        }
        for action in &step.actions {
            match action {
                Action::Run(statement) => out.push_str(statement.trim_end()),
                Action::DropInvalid(index) => {
                    let _ = write!(out, "{} \\gexec", drop_invalid(schema, index));
                }
            }
            out.push('\n');
        }
        if transaction {
            out.push_str("COMMIT;\n");
        }
    }
    let _ = write!(out, "\nSELECT pg_catalog.pg_advisory_unlock({key});\n");
    out
}
