use serde::{Deserialize, Serialize};
use taskq::Job;

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "a", max_attempts = 0)]
struct Work;

fn main() {}
