use taskq_macros::Job;

#[derive(Job)]
#[job(queue = "mail")]
struct Work;

fn main() {}
