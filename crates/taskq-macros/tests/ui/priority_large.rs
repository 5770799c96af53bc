use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", priority = 40_000)]
struct Work;

fn main() {}
