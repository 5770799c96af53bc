//! The heart of taskq: the model, the [`Store`](store::Store) seam with its in-memory implementation, the
//! client and the worker.
//!
//! No SQL, no HTTP and no command line live here. Dependencies point one way: `worker` uses `client`, both use
//! `store` and `model`, `store` uses `model`, and `model` uses nothing of the others.

pub mod client;
pub mod model;
pub mod store;
pub mod testing;
pub mod worker;
