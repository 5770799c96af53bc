use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", queue = "a\nb")]
struct Work;

fn main() {}
