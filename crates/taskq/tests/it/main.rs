//! The façade as its users meet it.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

mod blocked;
mod connections;
mod derive;
mod ends;
mod examples;
mod faults;
mod first_errors;
mod locked;
mod manual;
mod transactions;
