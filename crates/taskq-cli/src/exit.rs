//! How a command ends: its exit code and the one line that explains it.

use std::fmt;
use std::io;
use std::process::ExitCode;

use taskq::store::StoreError;

/// The exit codes of every verb.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// The operation failed.
    Failed = 1,
    /// Wrong use or bad input; nothing was written.
    Usage = 2,
    /// What was asked for does not exist.
    NotFound = 3,
    /// The database cannot be reached, or refuses the connection.
    NoConnection = 4,
    /// The schema is missing, too old or too new.
    Schema = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do what it was asked for.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: Option<String>,
}

impl Failure {
    /// The operation was tried and failed.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: Some(message.into()) }
    }

    /// The command line, the settings or the input are wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: Some(message.into()) }
    }

    /// What was asked for does not exist.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self { exit: Exit::NotFound, message: Some(message.into()) }
    }

    /// Says what had been done when it failed.
    pub(crate) fn after(mut self, done: &str) -> Self {
        if let Some(message) = &mut self.message {
            *message = format!("{message}; {done} by then");
        }
        self
    }

    /// Returns the exit code.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Returns the line for the error output, if there is something to say.
    pub(crate) fn line(&self) -> Option<String> {
        self.message.as_deref().map(|message| format!("error: {}", one_line(message)))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let exit = match &error {
            StoreError::Invalid { .. } | StoreError::Unsupported { .. } => Exit::Usage,
            StoreError::Unavailable { .. } | StoreError::Refused { .. } | StoreError::Pooler { .. } => {
                Exit::NoConnection
            }
            StoreError::Schema(_) => Exit::Schema,
            _ => Exit::Failed,
        };
        Self { exit, message: Some(with_sources(&error)) }
    }
}

impl From<io::Error> for Failure {
    /// Wraps an error of writing the output. A reader that went away, as `head` does, is no failure.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { exit: Exit::Done, message: None };
        }
        Self::failed(format!("cannot write the output: {error}"))
    }
}

/// Says an error with those behind it, leaving out what the outer one already says.
pub(crate) fn with_sources(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    text
}

/// Joins the lines of a text: an error is one line, whatever its parts were.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for part in text.lines().map(str::trim).filter(|part| !part.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(part.chars().filter(|character| !character.is_control()));
    }
    line
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message.as_deref().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_without_control_characters() {
        let failure = Failure::usage("first\n  second\n\n\u{1b}[31mthird");
        assert_eq!(failure.line().unwrap(), "error: first second [31mthird");
    }

    #[test]
    fn store_errors_have_their_exit_codes() {
        let refused = StoreError::Refused { message: "password".to_owned() };
        assert_eq!(Failure::from(refused).exit(), Exit::NoConnection);
        assert_eq!(Failure::from(StoreError::invalid("x")).exit(), Exit::Usage);
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.exit(), failure.line()), (Exit::Done, None));
    }
}
