use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", retry(delay = "1s"))]
struct Work;

fn main() {}
