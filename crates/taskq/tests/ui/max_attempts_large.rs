use serde::{Deserialize, Serialize};
use taskq::Job;

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "a", max_attempts = 40_000)]
struct Work;

fn main() {}
