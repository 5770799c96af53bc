//! `taskq enqueue`.

use std::time::Duration;

use clap::{Args, ValueEnum, value_parser};
use jiff::Timestamp;
use taskq::{ActorName, DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE, FairnessKey, IdempotencyKey, JobId, QueueName};

use super::OutputArgs;
use crate::parse;

/// What `taskq enqueue` is told.
#[derive(Args, Debug)]
#[command(
    after_help = "Durations are written as 90s, 5m, 2h or 3 days; times as ISO 8601 with a zone, such as \
                        2030-01-31T08:00Z.\n\nAn idempotency key is its actor's own and lasts 7 days. While a job has it, \
                        nothing is written: the id of that job is printed, and standard error says so. If that job \
                        has ended, it is exit code 1, unless --on-finished says what is wanted then.\n\nExamples:\n  \
                        taskq enqueue mail.welcome '{\"user_id\": 7}' --queue mail --in 5m\n  \
                        taskq enqueue report - --idempotency-key report-2030-01 < report.json"
)]
pub(crate) struct EnqueueArgs {
    /// The actor that runs the job.
    pub(crate) actor: ActorName,
    /// What the actor receives: JSON, or `-` for standard input.
    #[arg(default_value = "null", hide_default_value = true, value_name = "JSON | -")]
    pub(crate) payload: String,
    /// The queue.
    #[arg(long, default_value = DEFAULT_QUEUE)]
    pub(crate) queue: QueueName,
    /// Jobs with a higher priority run first.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) priority: i16,
    /// Its cohort, such as a tenant: cohorts take turns. Only for a queue in `round_robin` mode; see `taskq queue set`.
    #[arg(long, value_name = "KEY")]
    pub(crate) fairness: Option<FairnessKey>,
    /// Run it this much later.
    #[arg(long = "in", value_name = "DURATION", value_parser = parse::duration, conflicts_with = "at")]
    pub(crate) delay: Option<Duration>,
    /// Run it at this time.
    #[arg(long, value_name = "TIME", value_parser = parse::time)]
    pub(crate) at: Option<Timestamp>,
    /// Fail it if no attempt could start before this time.
    #[arg(long, value_name = "TIME", value_parser = parse::time)]
    pub(crate) deadline: Option<Timestamp>,
    /// A label for operators; may be given several times.
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// How many attempts may be made.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_ATTEMPTS, allow_negative_numbers = true, value_parser = value_parser!(i16).range(1..))]
    pub(crate) max_attempts: i16,
    /// How long one attempt may take [default: for ever].
    #[arg(long, value_name = "DURATION", value_parser = parse::positive_duration)]
    pub(crate) start_to_close: Option<Duration>,
    /// The job's id, a UUID; a repeated enqueue with it writes nothing [default: a new one].
    #[arg(long, value_name = "UUID")]
    pub(crate) id: Option<JobId>,
    /// Makes the enqueue safe to repeat: while a job of this actor has the key, no other is written.
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<IdempotencyKey>,
    /// What is wanted when the job of the key has ended.
    #[arg(long, value_name = "WHAT", requires = "idempotency_key")]
    pub(crate) on_finished: Option<OnFinishedArg>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What an idempotency key means whose job has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum OnFinishedArg {
    /// That job is the answer: its id is printed, nothing is written.
    Return,
    /// This job is written and takes the key over.
    RunAgain,
}
