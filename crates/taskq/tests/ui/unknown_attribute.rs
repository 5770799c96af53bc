use serde::{Deserialize, Serialize};
use taskq::Job;

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "a", retries = 3)]
struct Work;

fn main() {}
