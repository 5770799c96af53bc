use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", retry(base = "1s"), retry(cap = "2s"))]
struct Work;

fn main() {}
