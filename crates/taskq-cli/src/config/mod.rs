//! Settings in two steps: what was given and where, then what is valid. All problems are reported at once,
//! each with its source.

mod database;
mod file;
mod given;
mod path;
mod retention;
mod times;
mod worker;

pub(crate) use database::{DatabaseSettings, GivenDatabase, database, given_database, private_database};
pub(crate) use file::{EXAMPLE_FILE, FILE_SETTINGS};
pub(crate) use retention::given_retention;
pub(crate) use worker::{ProgramActor, WorkerSettings, given_log, worker};
