//! The types of jobs. They need serde and the derive, and nothing else.

use serde::{Deserialize, Serialize};
use taskq::Job;

/// Makes a small picture of a large one.
#[derive(Serialize, Deserialize, Job)]
#[job(actor = "picture.shrink", queue = "pictures", output = Shrunk, max_attempts = 5)]
#[job(start_to_close = "30s", retry(base = "1s", cap = "1m"))]
pub(crate) struct Shrink {
    pub(crate) picture: String,
    pub(crate) width: u32,
}

/// What becomes of it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Shrunk {
    pub(crate) path: String,
}
