//! The benchmarks' job.

use serde::{Deserialize, Serialize};
use taskq::{EnqueueError, Job};

use crate::exit::{Failure, with_sources};

/// A job that has a number and nothing to do. Its handler in a worker process is told by its orders.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, Job)]
#[job(actor = "bench.noop.0", queue = "bench")]
pub(super) struct Numbered {
    /// Tells it from the others.
    pub(super) n: u64,
}

/// Says that a benchmark's job was not taken: that is no measurement.
pub(super) fn refused(error: &EnqueueError) -> Failure {
    Failure::failed(with_sources(error))
}
