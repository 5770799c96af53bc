use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", max_attempts = 40_000)]
struct Work;

fn main() {}
