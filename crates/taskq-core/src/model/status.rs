//! The status of a job.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a job stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Waits for a time.
    Scheduled,
    /// Waits for another job.
    Blocked,
    /// Ready to be claimed.
    Pending,
    /// Claimed by a worker.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended with an error.
    Failed,
    /// Ended because someone asked for it.
    Cancelled,
    /// Its worker died and its attempts are spent.
    Crashed,
    /// Cancelled by force; its handler never returned.
    Abandoned,
}

impl Status {
    /// Every status, in the order of a job's life.
    pub const ALL: [Self; 9] = [
        Self::Scheduled,
        Self::Blocked,
        Self::Pending,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::Crashed,
        Self::Abandoned,
    ];

    /// Returns the word used in SQL, JSON and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Blocked => "blocked",
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Crashed => "crashed",
            Self::Abandoned => "abandoned",
        }
    }

    /// Says whether the job has ended. Only an operator's retry leaves a terminal status.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled | Self::Crashed | Self::Abandoned)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text that names no status.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown status `{0}`")]
pub struct UnknownStatus(pub String);

impl FromStr for Status {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        Self::ALL
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or_else(|| UnknownStatus(text.to_owned()))
    }
}
