//! The real binary against a real database: exit codes, outputs, processes.

#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

mod bench;
mod connection;
mod death;
mod demo;
mod foreign;
mod guide;
mod harness;
mod idempotency;
mod input;
mod jobs;
mod keeping;
mod maintain;
mod migrate;
mod operate;
mod programs;
mod rescue;
mod stop;
mod verbs;
mod worker;
