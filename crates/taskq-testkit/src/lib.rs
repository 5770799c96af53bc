//! A private PostgreSQL server, for `taskq demo`, `taskq dev` and every test.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use taskq_testkit::{Options, PgSource, PrivateServer};
//!
//! let server = PrivateServer::start(Options::durable(PgSource::from_env()?)).await?;
//! println!("PostgreSQL {} on {}", server.version(), server.dsn());
//! server.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! What holds for every server started here:
//!
//! - It belongs to the process that started it and ends with it, however that process ends: a keeper, a small shell
//!   script in its own process group, holds the other end of a pipe and acts when the pipe closes.
//! - It listens on 127.0.0.1 only, on a random port, and asks for a random password. There is no Unix socket: its path
//!   would be limited to about 100 bytes, and a proxy between a test and the server needs TCP anyway.
//! - PostgreSQL refuses to run as root, so root's servers run as `postgres` or, without such a user, as `nobody`.
//! - No server that was not started here is touched.
//!
//! Tests share one server a run ([`shared_server`]) and take a database each from a template that is migrated once
//! ([`Cluster::template`]). [`wait_for`] and [`ChildProcess`] are what such tests wait on instead of sleeping.
//!
//! Faults: [`Proxy`] breaks the network between a test and the server; [`ChildProcess`] is frozen, thawed and killed;
//! [`PrivateServer::restart`] and [`PrivateServer::halt`] take the server away, [`Cluster::terminate_backends`] its
//! sessions, [`Cluster::make_read_only`] its writes. [`PgBouncer`] pools its sessions. [`invariants`] says whether all was well in the end.

mod account;
mod cluster;
mod fetch;
mod hex;
mod installation;
pub mod invariants;
mod keeper;
mod options;
mod outage;
mod pgbouncer;
mod process;
mod proxy;
mod psycopg;
mod random;
mod server;
mod shared;
mod source;
mod template;
mod wait;

pub use cluster::{Cluster, DatabaseError};
pub use fetch::{FETCHED_VERSION, FetchError};
pub use installation::{Installation, InstallationError, PgVersion, SUPPORTED_MAJORS};
pub use options::Options;
pub use outage::ReadOnly;
pub use pgbouncer::{PgBouncer, PgBouncerError, PoolMode, shared_pgbouncer};
pub use process::ChildProcess;
pub use proxy::{Direction, Proxy, ProxyError, Swallow};
pub use psycopg::psycopg;
pub use rustix::process::Signal;
pub use server::{KeptServer, PrivateServer, ServerError, Shutdown};
pub use shared::{TEST_DSN_VARIABLE, shared_server};
pub use source::{PG_VARIABLE, PgSource, PgSourceError};
pub use template::{Template, TestDatabase};
pub use wait::{wait_for, wait_until};
