//! Settings as they were given, and what is wrong with them.

use std::fmt;
use std::path::PathBuf;

use crate::exit::Failure;

/// Where a setting came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// A flag of the command line.
    Flag(&'static str),
    /// An environment variable.
    Variable(&'static str),
    /// A place in a settings file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => f.write_str(flag),
            Self::Variable(variable) => f.write_str(variable),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
        }
    }
}

/// A setting with its source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Given<T> {
    /// What was given.
    pub(crate) value: T,
    /// Where.
    pub(crate) source: Source,
}

impl<T> Given<T> {
    /// Notes a value given by a flag.
    pub(crate) fn flag(flag: &'static str, value: T) -> Self {
        Self { value, source: Source::Flag(flag) }
    }
}

/// What is wrong with the settings, in the order found.
#[derive(Default, Debug)]
pub(crate) struct Problems(Vec<String>);

impl Problems {
    /// Notes a problem with a setting.
    pub(crate) fn at(&mut self, source: &Source, problem: impl fmt::Display) {
        self.0.push(format!("{source}: {problem}"));
    }

    /// Notes that something is missing.
    pub(crate) fn missing(&mut self, problem: impl Into<String>) {
        self.0.push(problem.into());
    }

    /// Checks one setting; notes why it is refused.
    pub(crate) fn check<T, U, E: fmt::Display>(
        &mut self,
        given: &Given<T>,
        check: impl FnOnce(&T) -> Result<U, E>,
    ) -> Option<U> {
        check(&given.value).map_err(|problem| self.at(&given.source, problem)).ok()
    }

    /// Ends the checks: nothing, or one failure that names every problem.
    pub(crate) fn into_result(self) -> Result<(), Failure> {
        match self.0.as_slice() {
            [] => Ok(()),
            [problem] => Err(Failure::usage(problem)),
            problems => Err(Failure::usage(format!("{} problems: {}", problems.len(), problems.join("; ")))),
        }
    }
}
