use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", retries = 3)]
struct Work;

fn main() {}
