//! The PostgreSQL store on a real server.

mod behaviours;
mod connect;
mod database;
mod migrate;
mod sql;
