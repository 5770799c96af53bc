//! `taskq migrate up`, `status`, `plan`, `verify`, `grant`, `revoke` and `grants`.

use serde::Serialize;
use taskq::migrate::{
    Finding, GrantedRole, MigrateError, MigrationState, Migrator, Phase, RoleKind, SchemaStatus,
};
use taskq::store::{SchemaProblem, StoreError};

use crate::cli::{KindArg, MigrateCommand, OutputArgs, PhaseArg};
use crate::config::DatabaseSettings;
use crate::exit::{Exit, Failure, with_sources};
use crate::output;

/// Runs one of the verbs.
pub(super) async fn run(verb: MigrateCommand, database: DatabaseSettings) -> Result<Exit, Failure> {
    let migrator = migrator(&database)?;
    match verb {
        MigrateCommand::Up(args) if args.sql => print_sql(&migrator, args.phase).await,
        MigrateCommand::Plan(args) if args.sql => print_sql(&migrator, args.phase).await,
        MigrateCommand::Up(args) => {
            let applied = migrator.up(args.phase.map(phase)).await.map_err(failure)?;
            print_steps(&applied.steps, "applied", args.output)
        }
        MigrateCommand::Plan(args) => {
            let plan = migrator.plan(args.phase.map(phase)).await.map_err(failure)?;
            let steps: Vec<_> = plan.into_iter().map(|step| step.name).collect();
            print_steps(&steps, "would apply", args.output)
        }
        MigrateCommand::Status(args) => {
            let status = migrator.status().await.map_err(failure)?;
            if args.output.json {
                output::json(&status)?;
            } else {
                output::line(&status_text(&status))?;
            }
            Ok(Exit::Done)
        }
        MigrateCommand::Verify(args) => {
            let findings = migrator.verify().await.map_err(failure)?;
            print_findings(&findings, &database, args.output)
        }
        MigrateCommand::Grant(args) => {
            let kind = kind(args.kind);
            migrator.grant(&args.role, kind).await.map_err(failure)?;
            let of_role = |granted: &GrantedRole| granted.role == args.role;
            let granted: Vec<_> =
                migrator.grants().await.map_err(failure)?.into_iter().filter(of_role).collect();
            print_grants(&granted, args.output)
        }
        MigrateCommand::Revoke(args) => {
            if !migrator.revoke(&args.role).await.map_err(failure)? {
                let message = format!("the role {:?} was granted nothing in this schema", args.role);
                return Err(Failure::not_found(message));
            }
            if args.output.json {
                output::json(&Revoked { revoked: &args.role })?;
            } else {
                output::line(&output::plain(&format!("revoked {}", args.role)))?;
            }
            Ok(Exit::Done)
        }
        MigrateCommand::Grants(args) => print_grants(&migrator.grants().await.map_err(failure)?, args),
    }
}

/// Brings a private server's schema up to date.
pub(super) async fn up(database: &DatabaseSettings) -> Result<(), Failure> {
    migrator(database)?.up(None).await.map(drop).map_err(failure)
}

fn migrator(database: &DatabaseSettings) -> Result<Migrator, Failure> {
    Migrator::new(&database.dsn, database.schema.clone()).map_err(failure)
}

fn phase(phase: PhaseArg) -> Phase {
    match phase {
        PhaseArg::Pre => Phase::Pre,
        PhaseArg::Post => Phase::Post,
    }
}

fn kind(kind: KindArg) -> RoleKind {
    match kind {
        KindArg::Worker => RoleKind::Worker,
        KindArg::EnqueueOnly => RoleKind::EnqueueOnly,
        KindArg::ReadOnly => RoleKind::ReadOnly,
        KindArg::Operator => RoleKind::Operator,
    }
}

fn failure(error: MigrateError) -> Failure {
    match error {
        MigrateError::Store(error) => error.into(),
        MigrateError::Newer(problem) => StoreError::Schema(problem).into(),
        other => Failure::failed(with_sources(&other)),
    }
}

async fn print_sql(migrator: &Migrator, only: Option<PhaseArg>) -> Result<Exit, Failure> {
    let sql = migrator.sql(only.map(phase)).await.map_err(failure)?;
    output::line(sql.trim_end())?;
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Steps<'a> {
    steps: &'a [String],
}

fn print_steps(steps: &[String], verb: &str, output: OutputArgs) -> Result<Exit, Failure> {
    if output.json {
        output::json(&Steps { steps })?;
    } else if steps.is_empty() {
        output::note("nothing to do: the schema is up to date");
    } else {
        let lines: Vec<_> = steps.iter().map(|step| format!("{verb} {step}")).collect();
        output::line(&lines.join("\n"))?;
    }
    Ok(Exit::Done)
}

fn status_text(status: &SchemaStatus) -> String {
    let rows = status.migrations.iter().map(|migration| {
        let applied_at = migration.applied_at.map_or_else(|| "-".to_owned(), output::time);
        [migration.name.clone(), migration.phase.clone(), output::word(&migration.state), applied_at]
    });
    let table = output::table(["migration", "phase", "state", "applied"], rows);
    let pending =
        status.migrations.iter().filter(|migration| migration.state == MigrationState::Pending).count();
    let schema = if status.exists { "" } else { " (the schema is missing)" };
    format!("{table}\n\nfunctions: {}\npending: {pending}{schema}", output::word(&status.functions))
}

#[derive(Serialize)]
struct Revoked<'a> {
    revoked: &'a str,
}

fn print_grants(granted: &[GrantedRole], output: OutputArgs) -> Result<Exit, Failure> {
    if output.json {
        output::json(granted)?;
    } else if granted.is_empty() {
        output::note("no role was granted anything");
    } else {
        let rows = granted.iter().map(|granted| {
            let problems =
                if granted.problems.is_empty() { "none".to_owned() } else { granted.problems.join("; ") };
            [granted.role.clone(), granted.kind.to_string(), problems]
        });
        output::line(&output::table(["role", "kind", "problems"], rows))?;
    }
    match granted.iter().filter(|granted| !granted.problems.is_empty()).count() {
        0 => Ok(Exit::Done),
        1 => Err(Failure::failed("1 role is not granted what it needs: grant it again, or revoke it")),
        roles => Err(Failure::failed(format!(
            "{roles} roles are not granted what they need: grant them again, or revoke them"
        ))),
    }
}

#[derive(Serialize)]
struct Verified<'a> {
    findings: &'a [Finding],
}

fn print_findings(
    findings: &[Finding],
    database: &DatabaseSettings,
    output: OutputArgs,
) -> Result<Exit, Failure> {
    if output.json {
        output::json(&Verified { findings })?;
    }
    if findings.contains(&Finding::Missing) {
        let schema = database.schema.to_string();
        return Err(StoreError::Schema(SchemaProblem::Missing { schema }).into());
    }
    if findings.is_empty() {
        if !output.json {
            output::line("the schema is what this program applied")?;
        }
        return Ok(Exit::Done);
    }
    if !output.json {
        output::line(&findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    }
    Err(Failure::failed(format!("{} findings: the schema is not what this program applies", findings.len())))
}
