//! The client and the worker on the in-memory store.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

mod client;
mod engine;
mod jobs;
mod lifecycle;
mod outcomes;
mod probe;
