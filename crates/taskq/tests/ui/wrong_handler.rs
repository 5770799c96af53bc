use serde::{Deserialize, Serialize};
use taskq::prelude::*;

#[derive(Serialize, Deserialize, Job)]
#[job(actor = "a")]
struct Work;

struct NotAHandler;

fn main() {
    let taskq = TaskQ::in_memory();
    let _ = Worker::builder(&taskq).handle::<Work>(NotAHandler);
}
