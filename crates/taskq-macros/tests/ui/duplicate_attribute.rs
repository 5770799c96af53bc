use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", queue = "b", queue = "c")]
struct Work;

fn main() {}
