use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", retry(factor = 0.5))]
struct Work;

fn main() {}
