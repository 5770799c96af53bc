use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", crate = 7)]
struct Work;

fn main() {}
