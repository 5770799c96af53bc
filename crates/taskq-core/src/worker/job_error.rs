//! What a handler returns when it has no output.

use std::error::Error;
use std::fmt::{self, Write};
use std::time::Duration;

use crate::model::{ErrorRecord, MESSAGE_LIMIT, Outcome};

/// What a handler returns.
pub type JobResult<T = ()> = Result<T, JobError>;

/// The class recorded of an error that names none.
const DEFAULT_CLASS: &str = "error";

/// Why an attempt has no output.
///
/// Made from any error, text included, by `?`: then the job is tried again as its retry policy says. The
/// constructors ask for something else. What is recorded is the error's message followed by those of its
/// sources.
///
/// It is not itself an [`Error`], which is what allows the conversion from all of them.
pub struct JobError {
    kind: JobErrorKind,
    class: Option<String>,
    error: Option<Box<dyn Error + Send + Sync>>,
}

/// What becomes of the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum JobErrorKind {
    /// It is tried again as its retry policy says, while attempts are left.
    Retry,
    /// It is tried again after the delay. No attempt is burnt.
    RetryAfter(Duration),
    /// It ends as failed although attempts are left.
    Fail,
    /// It runs again after the delay. No attempt is burnt, and nothing went wrong.
    Snooze(Duration),
    /// It ends as cancelled.
    Cancel,
}

impl JobError {
    /// Ends the job as failed although attempts are left.
    pub fn fail(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(JobErrorKind::Fail, error)
    }

    /// Asks to run again after `delay`, without burning an attempt: nothing went wrong, it is too early.
    ///
    /// At most 36,600 days.
    pub fn snooze(delay: Duration) -> Self {
        Self { kind: JobErrorKind::Snooze(delay), class: None, error: None }
    }

    /// Records an error and asks to be tried again after `delay` instead of the retry policy's, without
    /// burning an attempt. For a rate limit that says when to come back.
    ///
    /// At most 36,600 days.
    pub fn retry_after(delay: Duration, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(JobErrorKind::RetryAfter(delay), error)
    }

    /// Ends the job as cancelled, and says why.
    pub fn cancel(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(JobErrorKind::Cancel, reason)
    }

    /// Names the class of the error: a short, stable word to group by. Default `error`.
    #[must_use]
    pub fn with_class(mut self, class: impl Into<String>) -> Self {
        self.class = Some(class.into());
        self
    }

    /// Returns what becomes of the job.
    pub fn kind(&self) -> JobErrorKind {
        self.kind
    }

    /// Returns the error that it was made from, unless it is a snooze.
    pub fn error(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.error.as_deref()
    }

    /// Makes the record that is stored of it, unless it is a snooze.
    pub fn record(&self) -> Option<ErrorRecord> {
        let error = self.error.as_deref()?;
        Some(ErrorRecord::new(self.class.as_deref().unwrap_or(DEFAULT_CLASS), &with_sources(error)))
    }

    pub(super) fn into_outcome(self) -> Outcome {
        let record = self.record();
        let error = record.clone().unwrap_or_else(|| ErrorRecord::new(DEFAULT_CLASS, ""));
        match self.kind {
            JobErrorKind::Retry => Outcome::Failed { error, delay: None, is_final: false },
            JobErrorKind::RetryAfter(delay) => Outcome::Failed { error, delay: Some(delay), is_final: false },
            JobErrorKind::Fail => Outcome::Failed { error, delay: None, is_final: true },
            JobErrorKind::Snooze(delay) => Outcome::Snoozed { delay },
            JobErrorKind::Cancel => Outcome::Cancelled { error: record },
        }
    }

    fn new(kind: JobErrorKind, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, class: None, error: Some(error.into()) }
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for JobError {
    fn from(error: E) -> Self {
        Self::new(JobErrorKind::Retry, error)
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobError")
            .field("kind", &self.kind)
            .field("class", &self.class.as_deref().unwrap_or(DEFAULT_CLASS))
            .field("error", &self.error)
            .finish()
    }
}

/// Writes an error and its sources, up to what is recorded.
fn with_sources(error: &(dyn Error + 'static)) -> String {
    let mut message = Bounded(String::new());
    // The only failure is a full buffer, which is what bounds it.
    let mut written = write!(message, "{error}");
    let mut source = error.source();
    while let (Ok(()), Some(error)) = (written, source) {
        let before = message.0.len();
        written = write!(message, ": {error}");
        // Some errors repeat their source in their own message.
        let (told, repeated) = message.0.split_at(before);
        if told.ends_with(repeated.trim_start_matches(": ")) {
            message.0.truncate(before);
        }
        source = error.source();
    }
    message.0
}

/// Takes as much text as is recorded, so that an error of 50 MB is never copied whole.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MESSAGE_LIMIT.saturating_sub(self.0.len());
        let cut = text.floor_char_boundary(room);
        self.0.push_str(&text[..cut]);
        if cut == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot send")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn any_error_converts_and_its_sources_are_recorded() {
        fn fails() -> JobResult {
            Err(Outer(std::io::Error::other("disk full")))?
        }
        let error = fails().unwrap_err();
        assert_eq!(error.kind(), JobErrorKind::Retry);
        let record = error.record().unwrap();
        assert_eq!((record.class.as_str(), record.message.as_str()), ("error", "cannot send: disk full"));
        assert_eq!(JobError::from("text").record().unwrap().message, "text");
        assert_eq!(JobError::fail("x").with_class("exit").record().unwrap().class, "exit");
        assert_eq!(JobError::snooze(Duration::ZERO).record(), None);
    }

    #[test]
    fn a_huge_error_is_cut_while_it_is_written() {
        let record = JobError::from("é\0".repeat(20_000_000)).record().unwrap();
        assert!(record.message.len() <= MESSAGE_LIMIT && record.message.len() > MESSAGE_LIMIT - 4);
        assert!(!record.message.contains('\0'));
    }
}
