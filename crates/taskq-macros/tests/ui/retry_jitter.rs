use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", retry(jitter = "much"))]
struct Work;

fn main() {}
