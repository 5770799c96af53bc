use taskq_macros::Job;

#[derive(Job)]
// no attribute at all
struct Work;

fn main() {}
