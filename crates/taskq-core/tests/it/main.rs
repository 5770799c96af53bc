//! The client and the worker on the in-memory store.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

mod ahead;
mod around;
mod cancel;
mod client;
mod ends;
mod engine;
mod feed;
mod jobs;
mod leading;
mod lifecycle;
mod operate;
mod outcomes;
mod probe;
mod reconcile;
mod shutdown;
mod sweeping;
mod turns;
