//! The PostgreSQL store of taskq: connections, migrations, and the calls of the schema's functions.
//!
//! State lives in one schema of the user's database and changes only through functions of that schema; this
//! crate calls them. [`PostgresStore`] implements [`Store`](taskq_core::store::Store), [`Migrator`] brings a
//! schema to what the program needs.

mod codec;
mod connect;
mod doctor;
mod dsn;
mod engine;
mod error;
mod executors;
mod listen;
mod migrate;
mod mode;
mod notify;
mod rights;
mod role;
mod schema;
mod session;
mod store;
mod stream;

pub use connect::ConnectOptions;
pub use doctor::{Diagnosis, Doctor, Limits, Verdict};
pub use executors::{CompleteError, CompleteIn, Executor, InTx, Statement};
pub use migrate::{
    Applied, Finding, FunctionsState, GrantedRole, MigrateError, MigrationSet, MigrationState,
    MigrationStatus, Migrator, Mode, Phase, SchemaStatus, Step,
};
pub use mode::ConnectionMode;
pub use rights::RoleKind;
pub use schema::{InvalidSchemaName, SchemaName};
pub use store::PostgresStore;

/// The traits that add methods to other crates' types: calls in a transaction of the caller's own.
pub mod prelude {
    pub use crate::executors::{CompleteIn, InTx};
}
