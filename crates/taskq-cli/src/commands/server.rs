//! A private server for `demo`, `dev` and `bench`.

use taskq_testkit::{FETCHED_VERSION, Options, PgSource, PrivateServer};

use crate::exit::{Failure, with_sources};
use crate::output;

/// Starts a private server that survives a crash of the machine, as a real one would.
pub(super) async fn start() -> Result<PrivateServer, Failure> {
    start_with(|options| options).await
}

/// Starts one that is also set up in a way of the caller's own.
pub(super) async fn start_with(set_up: impl FnOnce(Options) -> Options) -> Result<PrivateServer, Failure> {
    let source = PgSource::from_env().map_err(|error| Failure::usage(error.to_string()))?;
    let installation = tokio::task::spawn_blocking(move || {
        source.resolve_announced(|| output::note(&format!("fetching PostgreSQL {FETCHED_VERSION}, 13 MB")))
    });
    let installation = installation
        .await
        .map_err(|error| Failure::failed(error.to_string()))?
        .map_err(|error| Failure::failed(with_sources(&error)))?;
    PrivateServer::start(set_up(Options::durable(PgSource::from(&installation))))
        .await
        .map_err(|error| Failure::failed(with_sources(&error)))
}
