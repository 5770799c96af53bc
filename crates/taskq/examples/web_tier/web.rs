//! The web tier: enqueues and answers. It compiles without the handlers and what they depend on.

use std::time::Duration;

use taskq::OnFinished;
use taskq::prelude::*;

use crate::types::{Shrink, Shrunk};

pub(crate) async fn run(taskq: &TaskQ) -> anyhow::Result<()> {
    let upload = Shrink { picture: "cat.jpg".to_owned(), width: 320 };
    // The same upload once more is the same job, also when it has ended.
    let once = taskq.enqueue(&upload).idempotency_key("upload-1").on_finished(OnFinished::Return);
    let handle = once.await?;
    println!("enqueued {}", handle.id());
    let Shrunk { path } = handle.wait_timeout(Duration::from_mins(1)).await?;
    println!("it is at {path}");
    Ok(())
}
