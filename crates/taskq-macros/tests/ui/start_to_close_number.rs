use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", start_to_close = 30)]
struct Work;

fn main() {}
