//! What a type says to be a job.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::model::{DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE, Keep, RetryPolicy};

/// A type whose values are payloads of one actor.
///
/// It is data only, so that the program that enqueues needs nothing of the program that runs. Derive it
/// (`#[derive(Job)]` of the `taskq` crate); names in a derived implementation are checked at compile time,
/// those of a hand-written one when a job is enqueued or a worker is built.
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// What its handler returns; at most 1 MiB as JSON.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// The actor that runs it.
    const ACTOR: &'static str;

    /// The queue that it is enqueued to unless the call says otherwise.
    const QUEUE: &'static str = DEFAULT_QUEUE;

    /// How many attempts may be made unless the call says otherwise; 1 to 32,767.
    const MAX_ATTEMPTS: i16 = DEFAULT_MAX_ATTEMPTS;

    /// Its priority unless the call says otherwise: within a queue, jobs with a higher one are claimed first.
    const PRIORITY: i16 = 0;

    /// How long one attempt may take unless the call says otherwise; `None` is for ever.
    const START_TO_CLOSE: Option<Duration> = None;

    /// When failed attempts are tried again unless the call says otherwise; `None` is [`RetryPolicy::DEFAULT`].
    const RETRY: Option<RetryPolicy> = None;

    /// What is left of it once it has succeeded, unless the call says otherwise.
    const KEEP: Keep = Keep::All;

    /// The version of the payload's type, at least 1.
    ///
    /// Raise it when the type changes so that a payload of the old form would be misread: a worker that knows
    /// another version fails such a job with a retry, which heals while a new version is rolled out.
    const VERSION: i32 = 1;
}
