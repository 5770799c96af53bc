//! Jobs that keep coming, whatever happens to the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use taskq::OnFinished;
use taskq::prelude::*;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::crew::{Deed, RETRY, Task};

/// How long the pause between two jobs is.
const PACE: Duration = Duration::from_millis(10);

pub(crate) struct Load {
    stop: watch::Sender<bool>,
    tally: Arc<Tally>,
    task: JoinHandle<Vec<Uuid>>,
}

#[derive(Default)]
struct Tally {
    accepted: AtomicU64,
    repeated: AtomicU64,
}

impl Load {
    /// Enqueues job after job; one whose enqueue fails is repeated under its key until it is accepted.
    pub(crate) fn start(taskq: TaskQ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let tally = Arc::<Tally>::default();
        let task = tokio::spawn(feed(taskq, stopped, Arc::clone(&tally)));
        Self { stop, tally, task }
    }

    /// How many jobs were accepted so far.
    pub(crate) fn accepted(&self) -> u64 {
        self.tally.accepted.load(Ordering::SeqCst)
    }

    /// How many calls were repeated so far, because they failed.
    pub(crate) fn repeated(&self) -> u64 {
        self.tally.repeated.load(Ordering::SeqCst)
    }

    /// Stops, and returns the jobs accepted.
    pub(crate) async fn stop(self) -> Vec<Uuid> {
        self.stop.send_replace(true);
        self.task.await.unwrap()
    }
}

async fn feed(taskq: TaskQ, stopped: watch::Receiver<bool>, tally: Arc<Tally>) -> Vec<Uuid> {
    let mut accepted = Vec::new();
    while !*stopped.borrow() {
        let number = accepted.len();
        // Most are short; some run while the server is away.
        let deed =
            Deed::Sleep(if number.is_multiple_of(25) { 3_000 } else { 20 + (number as u64 * 7) % 180 });
        let enqueue = || {
            let enqueue = taskq.enqueue(&Task(deed.clone())).retry(RETRY);
            enqueue.idempotency_key(number.to_string()).on_finished(OnFinished::Return)
        };
        let handle = loop {
            if let Ok(handle) = enqueue().await {
                break handle;
            }
            tally.repeated.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(PACE * 10).await;
        };
        accepted.push(handle.id().0);
        tally.accepted.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(PACE).await;
    }
    accepted
}
