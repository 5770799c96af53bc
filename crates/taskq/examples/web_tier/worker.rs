//! The worker: has the handlers, and whatever they need.

use taskq::prelude::*;

use crate::types::{Shrink, Shrunk};

/// Stands for a library that the web tier shall not have to build.
struct Workshop {
    directory: String,
}

impl Handler<Shrink> for Workshop {
    async fn run(&self, job: Shrink, _: Context) -> JobResult<Shrunk> {
        let path = format!("{}/{}-{}", self.directory, job.width, job.picture);
        Ok(Shrunk { path })
    }
}

pub(crate) async fn run(taskq: &TaskQ) -> anyhow::Result<()> {
    let workshop = Workshop { directory: "/var/pictures".to_owned() };
    let worker = Worker::builder(taskq).queue("pictures", 4).handle::<Shrink>(workshop).build()?;
    // Until Ctrl-C or SIGTERM.
    let report = worker.run_until_signal().await?;
    println!("{} pictures", report.succeeded);
    std::process::exit(report.exit_code())
}
