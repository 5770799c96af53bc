use serde::{Deserialize, Serialize};
use taskq::Job;

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "a", queue = "b", queue = "c")]
struct Work;

fn main() {}
