use serde::{Deserialize, Serialize};
use taskq::Job;

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "a", queue = "a\nb")]
struct Work;

fn main() {}
