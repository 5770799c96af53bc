//! Long scenarios of faults: `cargo xtask soak` runs them and prints what they measured.
//!
//! Each is an ignored test. It says what it measured in lines with `fact:`, ends with the check of the invariants, and fails
//! when one does not hold. `TASKQ_SOAK=short` runs the short forms.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]
#![expect(clippy::print_stdout, reason = "what was measured is the result")]

mod aborts;
mod black_hole;
mod blocked;
mod by_hand;
mod crew;
mod kills;
mod leaders;
mod load;
mod outages;
mod rate;
mod scene;
mod shutdown;
mod speed;
mod steady;
mod stopped;
mod sweeps;
