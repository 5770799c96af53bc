//! The PostgreSQL store on a real server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod behaviours;
mod bounds;
mod bulk;
mod connect;
mod database;
mod migrate;
mod observe;
mod sql;
mod statements;
