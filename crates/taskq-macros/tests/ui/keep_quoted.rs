use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", keep = "none")]
struct Work;

fn main() {}
