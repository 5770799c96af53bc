use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", version = 0)]
struct Work;

fn main() {}
