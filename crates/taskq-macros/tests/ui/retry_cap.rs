use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", retry(cap = "367d"))]
struct Work;

fn main() {}
