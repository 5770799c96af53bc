//! Jobs that keep coming at a rate.

use std::time::Duration;

use taskq::prelude::*;
use tokio::sync::watch;
use uuid::Uuid;

use crate::crew::Deed;
use crate::scene::new_job;

/// How often jobs are enqueued, and how many each time: 200 a second.
const PACE: Duration = Duration::from_millis(50);
const EACH: usize = 10;

/// Jobs that keep coming at a rate.
pub(crate) struct Rate {
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<Vec<Uuid>>,
}

impl Rate {
    /// Begins to enqueue; `deed` says what the nth job does.
    pub(crate) fn start(taskq: TaskQ, deed: impl Fn(usize) -> Deed + Send + 'static) -> Self {
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(async move {
            let mut ids: Vec<Uuid> = Vec::new();
            let mut ticks = tokio::time::interval(PACE);
            while !*stopped.borrow() {
                ticks.tick().await;
                let jobs: Vec<_> = (0..EACH).map(|nth| new_job(&taskq, &deed(ids.len() + nth))).collect();
                ids.extend(jobs.iter().map(|job| job.id.0));
                taskq.enqueue_raw(jobs).await.unwrap();
            }
            ids
        });
        Self { stop, task }
    }

    /// Stops, and returns the jobs.
    pub(crate) async fn stop(self) -> Vec<Uuid> {
        self.stop.send_replace(true);
        self.task.await.unwrap()
    }
}
