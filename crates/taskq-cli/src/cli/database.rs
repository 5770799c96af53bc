//! Where the database is.

use clap::Args;

/// Where the database is: the same for every verb.
#[derive(Args, Debug, Clone)]
pub(crate) struct DatabaseArgs {
    /// The database, as a URL or as libpq's `key=value` pairs.
    #[arg(long, global = true, env = "TASKQ_PG_DSN", hide_env_values = true, help_heading = "Database")]
    pub(crate) dsn: Option<String>,
    /// The schema that holds the jobs [default: taskq].
    #[arg(long, global = true, env = "TASKQ_SCHEMA_NAME", hide_env_values = true, help_heading = "Database")]
    pub(crate) schema: Option<String>,
}
