//! Jobs in the making.

use std::time::Duration;

use jiff::Timestamp;
use taskq_core::model::{ActorName, JobId, Json, NewJob, QueueName, RetryPolicy, Schedule};

/// A job in the making.
#[derive(Clone, Debug)]
pub(crate) struct Draft(pub(crate) NewJob);

/// Drafts a job of queue `q` and actor `a`. Drafts made later have greater ids.
pub(crate) fn draft() -> Draft {
    Draft(NewJob::new(queue("q"), actor("a"), json("{}")))
}

impl Draft {
    pub(crate) fn id(&self) -> JobId {
        self.0.id
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut NewJob)) -> Self {
        change(&mut self.0);
        self
    }

    pub(crate) fn queue(self, name: &str) -> Self {
        self.with(|job| job.queue = queue(name))
    }

    pub(crate) fn actor(self, name: &str) -> Self {
        self.with(|job| job.actor = actor(name))
    }

    pub(crate) fn priority(self, priority: i16) -> Self {
        self.with(|job| job.priority = priority)
    }

    pub(crate) fn after(self, delay: Duration) -> Self {
        self.with(|job| job.schedule = Schedule::After(delay))
    }

    pub(crate) fn at(self, time: Timestamp) -> Self {
        self.with(|job| job.schedule = Schedule::At(time))
    }

    pub(crate) fn deadline(self, time: Timestamp) -> Self {
        self.with(|job| job.schedule_to_close = Some(time))
    }

    pub(crate) fn max_attempts(self, attempts: i16) -> Self {
        self.with(|job| job.max_attempts = attempts)
    }

    pub(crate) fn policy(self, policy: RetryPolicy) -> Self {
        self.with(|job| job.retry_policy = Some(policy))
    }

    /// Failed attempts are tried again after this delay, without jitter.
    pub(crate) fn retry_every(self, delay: Duration) -> Self {
        self.policy(RetryPolicy::fixed(delay))
    }
}

/// Names a queue.
pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name).expect("a valid name")
}

/// Names an actor.
pub(crate) fn actor(name: &str) -> ActorName {
    ActorName::new(name).expect("a valid name")
}

/// Makes a document of any size.
pub(crate) fn json(text: &str) -> Json {
    Json::from_text(text.to_owned(), usize::MAX).expect("valid JSON")
}

/// Makes a document, a string, of exactly so many bytes.
pub(crate) fn json_of_bytes(bytes: usize) -> Json {
    json(&format!("\"{}\"", "x".repeat(bytes - 2)))
}

/// Makes a time.
pub(crate) fn time(text: &str) -> Timestamp {
    text.parse().expect("a valid time")
}
