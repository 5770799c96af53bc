use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", start_to_close = "36601d")]
struct Work;

fn main() {}
