//! The private PostgreSQL, its databases and the helpers of tests, on a real server.

#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

mod databases;
mod death;
mod invariants;
mod outage;
mod processes;
mod proxy;
mod server;
