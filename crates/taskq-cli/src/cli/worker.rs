//! `taskq worker`.

use std::path::PathBuf;

use clap::Args;

/// What `taskq worker` is told. The texts are checked together with those of the file, so that all problems
/// are reported at once.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
A program gets the payload on standard input and TASKQ_JOB_ID, TASKQ_ATTEMPT, TASKQ_QUEUE, TASKQ_ACTOR and \
(when the job has a deadline) TASKQ_DEADLINE in its environment, which is the worker's otherwise. What it writes to standard output is the \
result: JSON, or else text, or null when it writes nothing; at most 1 MiB.

Exit codes of a program: 0 succeeded, 65 failed without a retry, 75 run it again later (after 60 s unless \
the file says otherwise; burns no attempt), anything else is tried again, with the end of its standard error \
as the job's error.

A program runs in its own process group without a shell. When its job is cancelled, the group gets SIGTERM, and \
after --cancel-grace SIGKILL; a program that ends with code 0 by then has succeeded all the same. The group is \
killed at once when the program ends, at its timeout, when the worker stops and when the worker is killed.

SIGTERM and SIGINT stop the worker: it claims nothing more, lets its jobs go on for --shutdown-grace and then \
kills their programs and gives the jobs back, which burns no attempt. A second signal does so at once. Exit \
codes: 0 every attempt has ended or was given back; 1 an attempt could not be ended, or what became of one could \
not be recorded: its job runs again once the worker's lease has ended.

Durations are written as 90s, 5m or 2h.

Examples:
  taskq worker --queue files --slots 4 --actor sum='sha256sum --binary'
  taskq worker --config taskq.toml      # see docs/reference/settings.md")]
pub(crate) struct WorkerArgs {
    /// The settings file; a flag replaces the file's value of the same setting.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A queue to serve; may be given several times.
    #[arg(long = "queue", value_name = "Q")]
    pub(crate) queues: Vec<String>,
    /// How many jobs of each queue run at once [default: 32].
    #[arg(long, value_name = "N")]
    pub(crate) slots: Option<String>,
    /// A program that serves an actor; may be given several times.
    #[arg(long = "actor", value_name = "NAME='COMMAND'")]
    pub(crate) actors: Vec<String>,
    /// How long a cancelled program may take to end by itself after SIGTERM; up to 24h [default: 30s].
    #[arg(long, value_name = "DURATION")]
    pub(crate) cancel_grace: Option<String>,
    /// How long a killed program may take to be gone before its job is given up as abandoned; 1s to 24h [default: 10s].
    #[arg(long, value_name = "DURATION")]
    pub(crate) forced_grace: Option<String>,
    /// How long a stopping worker lets its jobs go on; up to 24h [default: 30s].
    #[arg(long, value_name = "DURATION")]
    pub(crate) shutdown_grace: Option<String>,
    /// How long the worker's jobs stay its own when it is not heard of; 1s to 24h. It beats six times a lease, and
    /// every 5s at least [default: 30s].
    #[arg(long, value_name = "DURATION")]
    pub(crate) lease: Option<String>,
    /// How long events are kept while this worker leads, instead of what the database's setting says; 0s is for ever
    /// [default: the setting, 7 days].
    #[arg(long, value_name = "DURATION", env = "TASKQ_EVENT_RETENTION_PERIOD", hide_env_values = true)]
    pub(crate) event_retention_period: Option<String>,
    /// How many events are deleted at once while this worker leads, instead of what the database's setting says; 1 to
    /// 100000 [default: the setting, 10000].
    #[arg(long, value_name = "N", env = "TASKQ_EVENT_RETENTION_BATCH_SIZE", hide_env_values = true)]
    pub(crate) event_retention_batch_size: Option<String>,
    /// What to log: error, warn, info, debug, trace, or a filter such as `taskq=debug` [default: info].
    #[arg(long, value_name = "FILTER", env = "TASKQ_LOG", hide_env_values = true)]
    pub(crate) log_level: Option<String>,
}
