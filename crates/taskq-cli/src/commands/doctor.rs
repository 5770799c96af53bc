//! `taskq doctor`.

use serde::Serialize;
use taskq::doctor::{Diagnosis, Doctor, Verdict};

use crate::cli::OutputArgs;
use crate::config::DatabaseSettings;
use crate::exit::{Exit, Failure};
use crate::output;

#[derive(Serialize)]
struct Examined<'a> {
    problems: usize,
    checks: &'a [Diagnosis],
}

/// Looks for what needs a person.
pub(super) async fn run(args: OutputArgs, database: DatabaseSettings) -> Result<Exit, Failure> {
    let found = Doctor::new(&database.dsn, database.schema.clone())?.examine().await?;
    let problems = found.iter().filter(|diagnosis| diagnosis.verdict == Verdict::Problem).count();
    if args.json {
        output::json(&Examined { problems, checks: &found })?;
    } else {
        for diagnosis in &found {
            let Diagnosis { check, verdict, message, remedy } = diagnosis;
            output::line(&output::plain(&format!("{verdict:8} {check}: {message}")))?;
            if let Some(remedy) = remedy {
                output::line(&output::plain(&format!("         remedy: {remedy}")))?;
            }
        }
    }
    match problems {
        0 => Ok(Exit::Done),
        1 => Err(Failure::failed("1 problem needs a person")),
        problems => Err(Failure::failed(format!("{problems} problems need a person"))),
    }
}
