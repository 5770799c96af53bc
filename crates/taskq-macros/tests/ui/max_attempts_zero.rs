use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", max_attempts = 0)]
struct Work;

fn main() {}
