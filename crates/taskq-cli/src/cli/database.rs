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
    /// Whether a pooler in transaction mode is in between: `yes`, `no`, or `auto` to find out [default: auto].
    #[arg(
        long,
        global = true,
        value_name = "WHETHER",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "yes",
        env = "TASKQ_PG_POOLED",
        hide_env_values = true,
        help_heading = "Database"
    )]
    pub(crate) pooled: Option<String>,
}
