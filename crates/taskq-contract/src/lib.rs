//! The behaviour list that every [`Store`](taskq_core::store::Store) of taskq must pass.
//!
//! A backend implements [`Harness`], and one line of its integration binary runs the whole list, one test a
//! behaviour:
//!
//! ```text
//! async fn fresh() -> MyHarness { … }
//! taskq_contract::behaviours!(fresh);
//! ```
//!
//! A behaviour moves the clock through the harness and never sleeps. On a server time flows while a test
//! runs, so no behaviour expects an exact time: it reads the clock before and after a call and expects what
//! the call stored to lie between. Leases and delays are minutes and hours, far from what a slow machine
//! takes.

mod archive;
mod cancel;
mod claim;
mod complete;
mod draft;
mod enqueue;
mod events;
mod harness;
mod hooks;
mod idempotency;
mod keep;
mod leader;
mod leading;
mod list;
mod operator;
mod pause;
mod queries;
mod rescue;
mod retry;
mod scene;
mod settle;
mod sweeps;
mod turns;
mod wakes;
mod worker;
mod workers;

pub use harness::Harness;
pub use list::run;
