use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", keep = some)]
struct Work;

fn main() {}
