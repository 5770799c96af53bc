use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a")]
#[job(actor = "b")]
struct Work;

fn main() {}
