//! The PostgreSQL store on a real server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod behaviours;
mod bounds;
mod bulk;
mod connect;
mod database;
mod doctor;
mod events;
mod migrate;
mod observe;
mod pooled;
mod roles;
mod sql;
mod statements;
