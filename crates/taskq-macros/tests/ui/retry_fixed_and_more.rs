use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", retry(fixed = "1s", jitter = 0.1))]
struct Work;

fn main() {}
