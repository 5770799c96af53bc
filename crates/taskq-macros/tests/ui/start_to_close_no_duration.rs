use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", start_to_close = "soon")]
struct Work;

fn main() {}
