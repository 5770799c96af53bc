//! `taskq dev`: a private server to develop against.

use serde::Serialize;

use super::{migrate, server, signals};
use crate::cli::DevArgs;
use crate::config::{self, GivenDatabase};
use crate::exit::{Exit, Failure, with_sources};
use crate::output;

#[derive(Serialize)]
struct Facts<'a> {
    dsn: &'a str,
    schema: &'a str,
    version: String,
}

/// Starts a private server, migrates it, prints its DSN and stays until the process is asked to end.
pub(super) async fn run(args: DevArgs, given: GivenDatabase) -> Result<Exit, Failure> {
    if let Some(dsn) = &given.dsn {
        return Err(Failure::usage(format!(
            "{}: `taskq dev` starts a server of its own; leave the DSN out",
            dsn.source
        )));
    }
    let mut ended = signals::Ended::listen()?;
    let server = tokio::select! {
        server = server::start() => server?,
        () = ended.wait() => return Ok(Exit::Done),
    };
    let database = config::private_database(given, server.dsn())?;
    migrate::up(&database).await?;

    let version = server.version().to_string();
    if args.output.json {
        output::json(&Facts { dsn: server.dsn(), schema: database.schema.as_str(), version })?;
    } else {
        output::line(server.dsn())?;
        output::note(&format!(
            "PostgreSQL {version} runs until Ctrl-C; in another terminal: export TASKQ_PG_DSN='{}'",
            server.dsn()
        ));
    }
    ended.wait().await;
    server.stop().await.map_err(|error| Failure::failed(with_sources(&error)))?;
    Ok(Exit::Done)
}
