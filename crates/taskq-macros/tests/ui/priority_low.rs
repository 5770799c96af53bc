use taskq_macros::Job;

#[derive(Job)]
#[job(actor = "a", priority = -32_769)]
struct Work;

fn main() {}
