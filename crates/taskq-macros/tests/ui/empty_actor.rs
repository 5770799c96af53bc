use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "")]
struct Work;

fn main() {}
