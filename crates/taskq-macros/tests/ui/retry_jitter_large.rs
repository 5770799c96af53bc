use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", retry(jitter = 1.5))]
struct Work;

fn main() {}
