use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", start_to_close = "0s")]
struct Work;

fn main() {}
