use serde::{Deserialize, Serialize};
use taskq::Job;

#[derive(Serialize, Deserialize, Job)]
// no attribute at all
struct Work;

fn main() {}
