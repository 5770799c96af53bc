//! The one server that the tests of a process share.

use std::env;

use tokio::sync::OnceCell;

use crate::cluster::Cluster;
use crate::options::Options;
use crate::server::PrivateServer;
use crate::source::PgSource;

/// The environment variable with the DSN of a running server for tests, set by `cargo xtask test`.
///
/// It leads to a superuser on the server's maintenance database.
pub const TEST_DSN_VARIABLE: &str = "TASKQ_TEST_DSN";

struct Shared {
    cluster: Cluster,
    /// Statics are never dropped; the server's keeper stops it when the process ends.
    _server: Option<PrivateServer>,
}

static SHARED: OnceCell<Shared> = OnceCell::const_new();

/// The server for this process's tests: the one that `TASKQ_TEST_DSN` names, else one of its own, started at the first
/// call from what `TASKQ_PG` names.
///
/// # Panics
///
/// There is no such server and none can be started: no test can go on.
pub async fn shared_server() -> &'static Cluster {
    &SHARED.get_or_init(find_or_start).await.cluster
}

async fn find_or_start() -> Shared {
    if let Ok(dsn) = env::var(TEST_DSN_VARIABLE) {
        return Shared { cluster: Cluster::at(dsn), _server: None };
    }
    let source = PgSource::from_env().unwrap_or_else(|error| panic!("{error}"));
    let server =
        PrivateServer::start(Options::for_tests(source)).await.unwrap_or_else(|error| panic!("{error}"));
    Shared { cluster: server.cluster().clone(), _server: Some(server) }
}
