//! `taskq bench`: where a benchmark runs, and what becomes of its figures.

use super::{server, signals};
use crate::bench::{self, Left, Progress, ReportFile, Scene};
use crate::cli::BenchCommand;
use crate::config::GivenDatabase;
use crate::exit::{Exit, Failure};
use crate::output;

/// Runs a benchmark, prints its table, and writes its figures.
pub(super) async fn run(command: BenchCommand, given: GivenDatabase) -> Result<Exit, Failure> {
    command.check()?;
    let args = command.shared();
    let file = args.json.as_deref().map(ReportFile::open).transpose()?;
    let mut ended = signals::Ended::listen()?;
    let progress = Progress::new();

    let opening = open(given, &progress);
    let scene = tokio::select! {
        scene = opening => scene,
        () = ended.wait() => Err(interrupted()),
    };
    let scene = scene.inspect_err(|_| progress.clear())?;
    let report = tokio::select! {
        report = bench::run(&command, &scene, &progress) => report,
        () = ended.wait() => Err(interrupted()),
    };
    progress.clear();
    // Also when it failed: the schema is nobody's then.
    let left = scene.close(args.keep).await;
    let report = report?;
    if let Some(file) = file {
        file.write(&report)?;
    }
    output::line(&report.text())?;
    if let Some(left) = left? {
        output::line(&format!("\n{}", where_it_is(&left)))?;
    }
    Ok(Exit::Done)
}

async fn open(given: GivenDatabase, progress: &Progress) -> Result<Scene, Failure> {
    let private = if given.dsn.is_none() {
        progress.say("starting PostgreSQL");
        Some(server::start_with(Scene::private).await?)
    } else {
        None
    };
    progress.say("creating the schema");
    Scene::open(private, &given).await
}

fn interrupted() -> Failure {
    Failure::failed("interrupted: nothing was measured to its end")
}

fn where_it_is(left: &Left) -> String {
    let Left { dsn, schema, stop_command } = left;
    let of_server = dsn.as_ref().map(|dsn| format!("  export TASKQ_PG_DSN='{dsn}'\n")).unwrap_or_default();
    let stop =
        stop_command.as_ref().map(|stop| format!("\nTo stop the server and remove its data:\n  {stop}"));
    format!(
        "Everything is left as it is. To look further:\n{of_server}  export TASKQ_SCHEMA_NAME='{schema}'{}",
        stop.unwrap_or_default()
    )
}
