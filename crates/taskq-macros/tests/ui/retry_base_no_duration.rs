use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", retry(base = "soon"))]
struct Work;

fn main() {}
