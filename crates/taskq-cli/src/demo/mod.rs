//! The demo's parts: the files, the job, the progress, the summary.

mod digest;
mod job;
mod progress;
mod report;
mod summary;
mod walk;

use digest::{Digest, digest};

pub(crate) use job::{DigestFile, Digester, Outstanding};
pub(crate) use progress::Progress;
pub(crate) use report::report;
pub(crate) use summary::{Summary, Tally};
pub(crate) use walk::{Skipped, walk};
